// SPDX-License-Identifier: Apache-2.0
//
// Chat completions over HTTP: a stream of server-sent events, or one JSON answer. Events of the
// generation arrive by callback between the steps of the coroutine; what a slow client has not
// taken waits in a bounded text.
#include "api/http/handlers.hpp"
#include "api/openai/chat_request.hpp"
#include "api/openai/chat_response.hpp"
#include "base/entropy.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

namespace exo::api::http {
namespace {

namespace asio = boost::asio;

openai::ChatIdentity identity_of(model::GenerationRequest const& request) {
    auto const now = std::chrono::system_clock::now().time_since_epoch();
    return {
        .task_id = request.task_id,
        .created = std::chrono::duration_cast<std::chrono::seconds>(now).count(),
        .model = request.model
    };
}

ApiError shutting_down() {
    return to_api_error(Error(Errc::unavailable, "this node is shutting down: ask another"));
}

// What is on its way to the client of a stream. Two owners: the handler, and the generation's
// callback, which may be called once more while the handler is ending.
struct Feed {
    openai::ChatStream stream;
    std::string waiting;
    std::size_t events_waiting = 0;
    std::optional<ApiError> early_failure; // It failed before anything was sent.
    bool head_sent = false;
    bool overflow = false;
};

void take_event(Feed& feed, model::GenerationEvent const& event, Limits const& limits) {
    if (feed.stream.done() || feed.early_failure || feed.overflow) {
        return;
    }
    auto const* failed = std::get_if<model::GenerationFailed>(&event);
    if (failed != nullptr && !feed.head_sent && feed.waiting.empty()) {
        feed.early_failure = to_api_error(failed->code, failed->message);
        return;
    }
    feed.waiting += feed.stream.write(event);
    ++feed.events_waiting;
    feed.overflow = feed.waiting.size() > limits.stream_bytes_max ||
                    feed.events_waiting > limits.stream_events_max;
}

// Waits a moment for the first event: a request that fails at once gets its own status code.
asio::awaitable<void> wait_for_head(Connection& connection, Feed& feed) {
    auto const deadline = Clock::now() + connection.context().options.limits.head_time;
    while (feed.waiting.empty() && !feed.early_failure && !connection.gone() &&
           !connection.context().stopping && Clock::now() < deadline) {
        co_await connection.signal().wait_until(deadline);
    }
}

// Writes events as they come, and comments while none do, until the stream is done or its client
// is gone.
asio::awaitable<void> pump(Connection& connection, Request const& request, Feed& feed) {
    auto const keep_alive_time = connection.context().options.limits.keep_alive_time;
    while (!connection.gone()) {
        if (connection.context().stopping && !feed.stream.done()) {
            feed.waiting += feed.stream.fail(shutting_down());
        }
        if (!feed.waiting.empty()) {
            auto const text = stream_chunk(std::exchange(feed.waiting, {}), request.framing);
            feed.events_waiting = 0;
            co_await connection.send(text);
            continue;
        }
        if (feed.stream.done()) {
            auto const end = stream_end(request.framing);
            co_await connection.send(end);
            co_return;
        }
        auto const deadline = Clock::now() + keep_alive_time;
        co_await connection.signal().wait_until(deadline);
        if (feed.waiting.empty() && Clock::now() >= deadline) {
            feed.waiting = openai::keep_alive;
        }
    }
}

asio::awaitable<void>
stream_chat(Connection& connection, Request const& request, openai::ChatRequest chat) {
    auto& context = connection.context();
    auto feed = std::make_shared<Feed>(
        Feed{.stream = openai::ChatStream(identity_of(chat.generation), chat.include_usage)}
    );
    auto on_event = [feed, weak = connection.weak_from_this()](model::GenerationEvent event) {
        auto const alive = weak.lock();
        if (!alive) {
            return;
        }
        take_event(*feed, event, alive->context().options.limits);
        if (feed->overflow && !alive->gone()) {
            ++alive->context().counters.slow_clients;
            log::warning("api", "a client reads its stream too slowly: its request is cancelled");
            alive->close(); // Also ends a write that waits for it.
        }
        alive->signal().notify();
    };
    connection.watch();
    connection.generation = context.backend.generate(std::move(chat.generation), on_event);
    co_await wait_for_head(connection, *feed);
    if (feed->early_failure) {
        connection.generation.reset();
        co_await send_answer(connection, request, to_answer(*feed->early_failure));
        co_return;
    }
    feed->head_sent = true;
    auto const head =
        stream_head(request.framing) + stream_chunk(openai::keep_alive, request.framing);
    co_await connection.send(head);
    co_await pump(connection, request, *feed);
    bool const complete = feed->stream.done() && feed->waiting.empty();
    context.counters.hang_ups += complete || feed->overflow ? 0 : 1;
}

// The answer under way. Owners as for Feed.
struct Pending {
    openai::ChatAnswer answer;
    bool done = false;
};

asio::awaitable<void>
answer_chat(Connection& connection, Request const& request, openai::ChatRequest chat) {
    auto& context = connection.context();
    auto pending = std::make_shared<Pending>(
        Pending{.answer = openai::ChatAnswer(identity_of(chat.generation))}
    );
    auto on_event = [pending, weak = connection.weak_from_this()](model::GenerationEvent event) {
        if (pending->done) {
            return;
        }
        pending->done = pending->answer.add(event);
        if (auto const alive = weak.lock()) {
            alive->signal().notify();
        }
    };
    connection.watch();
    connection.generation = context.backend.generate(std::move(chat.generation), on_event);
    auto const bytes_max = context.options.limits.answer_bytes_max;
    while (!pending->done && !connection.gone() && !context.stopping &&
           pending->answer.bytes() <= bytes_max) {
        co_await connection.signal().wait_until(Clock::time_point::max());
    }
    bool const done = std::exchange(pending->done, true);
    connection.generation.reset();
    if (connection.gone()) {
        ++context.counters.hang_ups;
    } else if (done) {
        auto body = pending->answer.take();
        Answer answer = body ? Answer{.body = std::move(*body)} : to_answer(body.error());
        co_await send_answer(connection, request, std::move(answer));
    } else {
        ApiError const error = context.stopping
                                   ? shutting_down()
                                   : to_api_error(Error(Errc::limit, "the answer became too long"));
        co_await send_answer(connection, request, to_answer(error));
    }
}

ApiResult<openai::ChatRequest> read_chat(Backend& backend, std::string const& body) {
    auto chat = openai::parse_chat_request(body);
    if (!chat) {
        return chat.error();
    }
    auto const card = backend.find_model(chat->generation.model.value());
    if (!card) {
        return model_not_found(card.error().text());
    }
    auto const& tasks = card->tasks;
    if (std::find(tasks.begin(), tasks.end(), "TextGeneration") == tasks.end()) {
        return bad_request("model", "'" + card->model_id.value() + "' cannot answer chats");
    }
    chat->generation.model = card->model_id;
    chat->generation.task_id = model::TaskId(random_uuid());
    return chat;
}

} // namespace

asio::awaitable<void> handle_chat(Connection& connection, Request const& request) {
    auto chat = read_chat(connection.context().backend, request.body);
    if (!chat) {
        co_await send_answer(connection, request, to_answer(chat.error()));
    } else if (chat->stream) {
        co_await stream_chat(connection, request, std::move(*chat));
    } else {
        co_await answer_chat(connection, request, std::move(*chat));
    }
}

} // namespace exo::api::http
