// SPDX-License-Identifier: Apache-2.0
#include "node/requests/generate_service.hpp"

#include "base/log.hpp"
#include "model/json.hpp"
#include "net/host/async.hpp"
#include "node/json.hpp"

#include <boost/asio/experimental/awaitable_operators.hpp>

namespace exo::node {
namespace {

using namespace asio::experimental::awaitable_operators;

// Wakes that get lost would only cost this much time; none is known to.
constexpr Duration recheck_interval = 1s;

using net::now;

asio::awaitable<Error> wait_for_end(net::Stream& stream) {
    std::array<std::uint8_t, 256> ignored{};
    while (true) {
        auto const read = co_await stream.read_some(ignored);
        if (!read) {
            co_return read.error();
        }
        if (*read == 0) {
            // An API node keeps its side open while it wants the answer.
            co_return Error(Errc::cancelled, "the API node ended the stream");
        }
    }
}

asio::awaitable<bool>
write_event(net::Stream& stream, model::GenerationEvent event, std::optional<Error>& failure) {
    auto const bytes = model::to_msgpack(event);
    auto const written = co_await net::write_message(stream, bytes);
    if (!written) {
        failure = written.error();
    }
    co_return written.has_value();
}

} // namespace

bool is_terminal(model::GenerationEvent const& event) {
    return std::holds_alternative<model::GenerationFinished>(event) ||
           std::holds_alternative<model::GenerationFailed>(event);
}

asio::awaitable<void> follow_task(
    TaskTable& table,
    Notify& changed,
    model::TaskId id,
    std::size_t next,
    std::function<asio::awaitable<bool>(model::GenerationEvent)> on_event
) {
    while (true) {
        auto const* const events = table.events(id);
        if (events == nullptr) {
            co_return;
        }
        if (next >= events->size()) {
            co_await changed.wait(recheck_interval);
            continue;
        }
        auto event = (*events)[next++]; // A copy: the table may grow while we write.
        bool const last = is_terminal(event);
        if (!co_await on_event(std::move(event)) || last) {
            co_return;
        }
    }
}

GenerateService::GenerateService(net::Host& host, TaskTable& table, Notify& changed)
    : table_(table)
    , changed_(changed) {
    host.handle(generate_protocol, [this](std::unique_ptr<net::Stream> stream) {
        return serve(std::move(stream));
    });
}

asio::awaitable<void> GenerateService::serve(std::unique_ptr<net::Stream> stream) {
    auto const message = co_await net::read_message(*stream, open_task_bytes_max);
    if (!message) {
        co_return;
    }
    auto const open = model::from_msgpack<OpenTask>(*message);
    if (!open) {
        log::warning("node", "a node sent a malformed OpenTask: {}", open.error().text());
        co_return;
    }
    auto const& id = open->request.task_id;
    if (auto const opened = table_.open(*open); !opened) {
        model::GenerationFailed failed;
        failed.code = to_string(opened.error().code());
        failed.message = opened.error().text();
        std::optional<Error> ignored;
        (void)co_await write_event(*stream, std::move(failed), ignored);
        stream->close_write();
        co_return;
    }
    auto const first = table_.first_event(id, open->next_number);
    std::optional<Error> error; // A writer may meet the end before a reader does.
    std::function<asio::awaitable<bool>(model::GenerationEvent)> const on_event =
        [&](model::GenerationEvent event) { return write_event(*stream, std::move(event), error); };
    auto const ended =
        co_await (follow_task(table_, changed_, id, first, on_event) || wait_for_end(*stream));
    if (auto const* const read = std::get_if<1>(&ended)) {
        error = *read;
    }
    if (error && error->code() == Errc::cancelled) {
        table_.cancel(id, now());
    }
    table_.client_lost(id, now());
    stream->close_write();
}

} // namespace exo::node
