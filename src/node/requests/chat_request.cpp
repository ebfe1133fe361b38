// SPDX-License-Identifier: Apache-2.0
#include "node/requests/chat_request.hpp"

#include "base/entropy.hpp"
#include "base/log.hpp"
#include "model/json.hpp"
#include "net/host/async.hpp"
#include "node/direct.hpp"
#include "node/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace exo::node {
namespace {

// Asking the master which instance to take must not hold up a request for long (T1).
constexpr Duration choose_limit = 300ms;
// From when the peer was last heard until its stream is given up (T3).
constexpr Duration resume_limit = 4500ms;
constexpr Duration resume_interval = 200ms;
constexpr Duration recheck_interval = 1s;
constexpr int attempts_max = 2; // T4

using net::now;

} // namespace

class ChatRequest::Run {
public:
    Run(ChatContext const& context,
        model::ModelCard card,
        model::InstanceSettings settings,
        model::GenerationRequest request,
        OnEvent on_event)
        : context_(context)
        , card_(std::move(card))
        , settings_(std::move(settings))
        , request_(std::move(request))
        , on_event_(std::move(on_event)) {
        request_.model = card_.model_id;
    }

    // Keeps itself alive: the frame of the coroutine holds `self`.
    static asio::awaitable<void> run(std::shared_ptr<Run> self) { co_await self->answer(); }

    // The client is gone: nothing reaches it any more, and rank 0 stops.
    void abandon() {
        on_event_ = nullptr;
        if (local_task_) {
            context_.tasks.cancel(*local_task_, now());
        }
    }

private:
    asio::awaitable<void> answer() {
        Error last(Errc::unavailable, "no instance was tried");
        for (int attempt = 0; attempt < attempts_max; ++attempt) {
            auto const instance = co_await find_instance();
            if (!instance) {
                // The reason why the first instance failed says more than that there is no other.
                fail(attempt == 0 ? instance.error() : last);
                co_return;
            }
            auto const result = co_await follow(*instance);
            if (result) {
                co_return;
            }
            last = result.error();
            if (next_number_ > 0 || last.code() != Errc::unavailable) {
                break;
            }
            log::info("request", "trying another instance: {}", last.text());
            request_.task_id = model::TaskId(random_uuid());
        }
        fail(last);
    }

    // ---- which instance

    asio::awaitable<Result<model::InstanceId>> find_instance() {
        auto const deadline = now() + ready_limit;
        bool placed = false;
        while (now() < deadline) {
            auto const choice = context_.choose.choose(card_.model_id);
            if (choice) {
                co_return is_only_one() ? *choice : co_await ask_master(*choice);
            }
            // Placed, and not yet in this node's State.
            bool const on_its_way = placed && choice.error().code() == Errc::not_found;
            if (choice.error().code() != Errc::unavailable && !on_its_way) {
                if (placed) {
                    co_return choice.error();
                }
                auto const accepted = co_await place();
                if (!accepted) {
                    co_return accepted.error();
                }
                placed = true;
            }
            co_await context_.cluster.changed().wait(recheck_interval);
        }
        co_return Error(
            Errc::timed_out,
            fmt::format(
                "model {} was not ready within {} s", card_.model_id.value(), ready_limit / 1s
            )
        );
    }

    // Then there is nothing to ask the master.
    [[nodiscard]] bool is_only_one() const {
        auto const& instances = context_.cluster.state().instances;
        return 1 == std::ranges::count_if(instances, [this](auto const& entry) {
                   return model_card(entry.second).model_id == card_.model_id;
               });
    }

    // An automatic wish has the model's id, so that two API nodes wish it once (C4).
    asio::awaitable<Result<void>> place() {
        model::PlaceInstance wish;
        auto holders =
            nodes_with(context_.cluster.observations(), context_.cluster.self(), card_.model_id);
        auto judged = co_await context_.probes.judge(card_, wish.sharding, std::move(holders));
        if (!judged) {
            co_return judged.error();
        }
        wish.wish_id = model::WishId(card_.model_id.value());
        wish.model_card = std::move(*judged);
        wish.settings = settings_;
        wish.automatic = true;
        auto const outcome =
            co_await context_.cluster.command(model::CommandId(random_uuid()), std::move(wish));
        if (!outcome) {
            co_return outcome.error();
        }
        co_return Result<void>();
    }

    asio::awaitable<Result<model::InstanceId>> ask_master(model::InstanceId fallback) {
        auto const master = context_.cluster.master();
        if (!master || *master == context_.cluster.self()) {
            co_return fallback;
        }
        auto const peer = net::PeerId::parse(master->value());
        if (!peer) {
            co_return fallback;
        }
        ChooseInstance question;
        question.model = card_.model_id;
        auto bytes = model::to_msgpack(question);
        auto const answer = co_await ask(
            context_.host,
            *peer,
            choose_protocol,
            std::move(bytes),
            small_message_bytes_max,
            choose_limit
        );
        if (answer) {
            auto const chosen = model::from_msgpack<ChosenInstance>(*answer);
            if (chosen && chosen->instance_id) {
                co_return *chosen->instance_id;
            }
        }
        co_return fallback;
    }

    // ---- the stream

    // Success: a terminal event was passed on. Else the reason, and whether T4 applies by its code.
    asio::awaitable<Result<void>> follow(model::InstanceId instance_id) {
        auto const& instances = context_.cluster.state().instances;
        auto const instance = instances.find(instance_id);
        if (instance == instances.end()) {
            co_return Error(Errc::unavailable, "the instance is gone");
        }
        auto const rank_0 = nodes_by_rank(instance->second).front();
        OpenTask open;
        open.instance_id = instance_id;
        open.request = request_;
        if (rank_0 == context_.cluster.self()) {
            co_return co_await follow_here(std::move(open));
        }
        auto const peer = net::PeerId::parse(rank_0.value());
        if (!peer) {
            co_return Error(Errc::unavailable, peer.error().text());
        }
        co_return co_await follow_remote(*peer, std::move(open));
    }

    asio::awaitable<Result<void>> follow_here(OpenTask open) {
        auto const opened = context_.tasks.open(open);
        if (!opened) {
            co_return opened.error();
        }
        local_task_ = open.request.task_id;
        std::function<asio::awaitable<bool>(model::GenerationEvent)> const on_event =
            [this](model::GenerationEvent event) -> asio::awaitable<bool> {
            co_return pass_on(std::move(event));
        };
        co_await follow_task(
            context_.tasks, context_.tasks_changed, open.request.task_id, 0, on_event
        );
        context_.tasks.client_lost(open.request.task_id, now());
        local_task_.reset();
        co_return outcome();
    }

    asio::awaitable<Result<void>> follow_remote(net::PeerId peer, OpenTask open) {
        Error lost(Errc::unavailable, "it could not be reached");
        bool opened_once = false;
        while (true) {
            auto const error = co_await read_stream(peer, open);
            if (finished_ || failure_) {
                co_return outcome();
            }
            lost = error;
            opened_once = opened_once || stream_opened_;
            auto const heard = context_.cluster.heard(model::NodeId(peer.text()));
            bool const given_up = !heard || now() - *heard >= resume_limit;
            if (!opened_once || error.code() == Errc::cancelled || given_up) {
                break;
            }
            open.resume = true;
            open.next_number = next_number_;
            co_await sleep_for(resume_interval);
        }
        co_return Error(
            Errc::unavailable,
            fmt::format("node {}, which runs the model, was lost: {}", peer.text(), lost.text())
        );
    }

    // Reads events until the stream ends, and says why it did.
    asio::awaitable<Error> read_stream(net::PeerId peer, OpenTask const& open) {
        stream_opened_ = false;
        auto opened = co_await context_.host.open_stream(peer, generate_protocol);
        if (!opened) {
            co_return opened.error();
        }
        auto const stream = std::move(*opened);
        auto const bytes = model::to_msgpack(open);
        auto const written = co_await net::write_message(*stream, bytes);
        if (!written) {
            co_return written.error();
        }
        stream_opened_ = true;
        while (true) {
            auto const message = co_await net::read_message(*stream, event_bytes_max);
            if (!message) {
                co_return message.error();
            }
            auto event = model::from_msgpack<model::GenerationEvent>(*message);
            if (!event) {
                co_return Error(Errc::cancelled, "it sent a malformed event");
            }
            if (!pass_on(std::move(*event))) {
                stream->close_write();
                co_return Error(Errc::cancelled, "ended");
            }
        }
    }

    // ---- events

    // False when no further event is wanted.
    bool pass_on(model::GenerationEvent event) {
        if (auto const* const failed = std::get_if<model::GenerationFailed>(&event)) {
            failure_ = *failed; // Told to the client only if no other instance is tried.
            return false;
        }
        if (auto const* const delta = std::get_if<model::TokenDelta>(&event)) {
            if (delta->number < next_number_) {
                return true; // Doubled by a resumption.
            }
            next_number_ = delta->number + 1;
        }
        finished_ = std::holds_alternative<model::GenerationFinished>(event);
        emit(std::move(event));
        return !finished_;
    }

    // After a stream that ended in good order.
    Result<void> outcome() {
        if (finished_) {
            return {};
        }
        if (!failure_) {
            return Error(Errc::unavailable, "the answer ended without an end");
        }
        auto const failed = *std::exchange(failure_, std::nullopt);
        bool const elsewhere = failed.code == to_string(Errc::unavailable) ||
                               failed.code == to_string(Errc::not_found);
        if (elsewhere) {
            return Error(Errc::unavailable, failed.message);
        }
        finished_ = true;
        emit(failed);
        return {};
    }

    void fail(Error const& error) {
        emit(model::GenerationFailed{to_string(error.code()), error.text()});
    }

    void emit(model::GenerationEvent event) {
        if (on_event_) {
            on_event_(std::move(event));
        }
    }

    ChatContext context_;
    model::ModelCard card_;
    model::InstanceSettings settings_;
    model::GenerationRequest request_;
    OnEvent on_event_;
    std::optional<model::TaskId> local_task_;
    std::uint64_t next_number_ = 0; // Of the next delta to pass on.
    bool stream_opened_ = false;
    bool finished_ = false;
    std::optional<model::GenerationFailed> failure_;
};

ChatRequest::ChatRequest(
    ChatContext const& context,
    model::ModelCard card,
    model::InstanceSettings settings,
    model::GenerationRequest request,
    OnEvent on_event
)
    : run_(std::make_shared<Run>(
          context, std::move(card), std::move(settings), std::move(request), std::move(on_event)
      ))
    , coroutine_(context.scope.spawn_owned("a request", Run::run(run_))) {}

ChatRequest::~ChatRequest() {
    run_->abandon();
}

} // namespace exo::node
