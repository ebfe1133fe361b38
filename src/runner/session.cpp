// SPDX-License-Identifier: Apache-2.0
#include "runner/session.hpp"

#include "base/log.hpp"
#include "collective/local_group.hpp"
#include "runner/process.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sys/socket.h>

namespace exo::runner {
namespace {

// How long a rank that was asked to end waits for rank 0 to end the group in good order.
// Shorter than the node's patience (SupervisorOptions::shutdown_limit).
constexpr Duration good_order_limit = 500ms;
// And how long a computation may go on after the node is gone.
constexpr Duration orphan_limit = 1500ms;
// Between words on how far loading is: each of them is told to the whole cluster.
constexpr Duration progress_interval = 500ms;
// Between looks at the other ranks while there is nothing to compute.
constexpr Duration idle_look = 100ms;
// Without an answer for so long the node has lost us.
constexpr Duration node_limit = 10min;

// For the last words of an abort, which come from within ggml.
std::atomic<ipc::Channel*> channel_for_last_words{nullptr};

void send_last_words(std::string const& reason) {
    std::fprintf(stderr, "%s\n", reason.c_str());
    if (auto* const channel = channel_for_last_words.load()) {
        (void)channel->write_message(ipc::Fault{reason});
    }
}

engine::EngineOptions engine_options(ipc::Start const& start) {
    return {
        .model_paths = start.model_paths,
        .sharding = start.sharding,
        .shares = start.shares,
        .context_length = start.context_length,
        .micro_batch = start.micro_batch,
        .threads = start.threads,
        .device = start.device,
        .settings = start.settings,
        .draft_paths = start.draft_paths,
    };
}

// Ranks that the same machine runs, this one among them.
std::uint32_t ranks_here(std::vector<ipc::RankEndpoint> const& endpoints, std::uint32_t rank) {
    auto const& own = endpoints[rank].addresses;
    auto const count = std::ranges::count_if(endpoints, [&](auto const& endpoint) {
        return std::ranges::find_first_of(endpoint.addresses, own) != endpoint.addresses.end();
    });
    return std::max(1u, static_cast<std::uint32_t>(count));
}

collective::WireFormat wire_format(model::WireType type) {
    switch (type) {
    case model::WireType::automatic:
        return collective::WireFormat::automatic;
    case model::WireType::f32:
        return collective::WireFormat::f32;
    case model::WireType::f16:
        return collective::WireFormat::f16;
    case model::WireType::q8:
        return collective::WireFormat::q8;
    }
    return collective::WireFormat::automatic;
}

collective::Digest rank_map_hash(ipc::Start const& start) {
    Bytes bytes;
    for (auto const share : start.shares) {
        append(bytes, as_bytes(std::to_string(share) + ' '));
    }
    append(bytes, as_bytes(std::to_string(start.world_size)));
    return collective::digest_of(bytes);
}

} // namespace

Session::Session(int descriptor, std::optional<engine::MeasureOptions> measure)
    : descriptor_(descriptor)
    , channel_(descriptor)
    , measure_(measure) {
    channel_for_last_words = &channel_;
    set_last_words(send_last_words);
    reader_ = std::thread([this] { read_node(); });
}

Session::~Session() {
    channel_for_last_words = nullptr;
    reader_.join();
}

int Session::run() {
    auto const result = serve();
    {
        std::scoped_lock const lock(done_mutex_);
        done_ = true;
        done_changed_.notify_all();
    }
    engine_.reset();
    int code = 0;
    if (!result && !ending_) {
        log::error("runner", "{}", result.error().text());
        (void)tell(ipc::Fault{result.error().text()});
        code = 1;
    } else {
        (void)tell_status(model::RunnerShutdown{});
    }
    std::unique_ptr<collective::Group> group;
    {
        std::scoped_lock const lock(group_mutex_);
        group = std::move(group_);
    }
    group.reset(); // The other ranks are told.
    mailbox_.close();
    shutdown(descriptor_, SHUT_RD); // The reader ends; what was written still arrives.
    return code;
}

void Session::read_node() {
    for (;;) {
        auto message = channel_.read_message();
        if (!message) {
            mailbox_.close();
            end_soon({Errc::cancelled, "the node of this rank is gone"}, 0s);
            return;
        }
        bool const last = std::holds_alternative<ipc::Shutdown>(*message);
        mailbox_.put(std::move(*message));
        if (last) {
            end_soon({Errc::cancelled, "this rank was asked to end"}, good_order_limit);
        }
    }
}

// First the engine's thread may end by itself; then its waits for other ranks fail; then, if it
// computes still, the process ends: nobody is left to wait for it.
void Session::end_soon(Error const& reason, Duration grace) {
    ending_ = true;
    cancelled_ = true;
    std::unique_lock lock(done_mutex_);
    auto const is_done = [&] { return done_; };
    if (done_changed_.wait_for(lock, grace, is_done)) {
        return;
    }
    lock.unlock();
    {
        std::scoped_lock const group_lock(group_mutex_);
        if (group_) {
            group_->fail(reason);
        }
    }
    lock.lock();
    if (!done_changed_.wait_for(lock, orphan_limit, is_done)) {
        std::_Exit(0);
    }
}

Result<void> Session::serve() {
    auto const start = await_start();
    if (!start) {
        return start.error();
    }
    EXO_TRY(join(*start));
    EXO_TRY(load(*start));
    if (measure_ && start->device_rank == 0) {
        return measure(*start);
    }
    return start->device_rank == 0 ? lead() : obey();
}

Result<ipc::Start> Session::await_start() {
    taken_ = mailbox_.take(node_limit);
    if (taken_.empty() || !std::holds_alternative<ipc::Start>(taken_.front())) {
        return Error(Errc::protocol, "the node did not begin with Start");
    }
    auto start = std::get<ipc::Start>(std::move(taken_.front()));
    taken_.pop_front();
    if (start.world_size == 0 || start.device_rank >= start.world_size) {
        return Error(
            Errc::invalid_argument,
            fmt::format("rank {} of {} ranks", start.device_rank, start.world_size)
        );
    }
    return start;
}

Result<ipc::Connect> Session::await_connect() {
    while (taken_.empty() && !mailbox_.closed()) {
        taken_ = mailbox_.take(node_limit);
    }
    if (taken_.empty() || !std::holds_alternative<ipc::Connect>(taken_.front())) {
        return Error(Errc::protocol, "the node did not say how to connect");
    }
    auto connect = std::get<ipc::Connect>(std::move(taken_.front()));
    taken_.pop_front();
    return connect;
}

Result<void> Session::join(ipc::Start const& start) {
    std::optional<collective::Listener> listener;
    if (start.world_size > 1) {
        auto opened = collective::Listener::open();
        if (!opened) {
            return opened.error();
        }
        listener = std::move(*opened);
        EXO_TRY(tell(ipc::Listening{listener->port()}));
    }
    EXO_TRY(tell_status(model::RunnerIdle{}));
    auto const connect = await_connect();
    if (!connect) {
        return connect.error();
    }
    EXO_TRY(tell_status(model::RunnerConnecting{}));
    if (listener) {
        EXO_TRY(join_others(start, *connect, std::move(*listener)));
    } else {
        set_group(std::make_unique<collective::LocalGroup>());
    }
    return tell_status(model::RunnerConnected{});
}

Result<void> Session::join_others(
    ipc::Start const& start, ipc::Connect const& connect, collective::Listener listener
) {
    auto const key_bytes = from_hex(connect.key_hex);
    if (!key_bytes || key_bytes->size() != collective::Key{}.size()) {
        return Error(Errc::invalid_argument, "the key of the group is not 32 bytes in hex");
    }
    if (connect.endpoints.size() != start.world_size) {
        return Error(
            Errc::invalid_argument,
            fmt::format("{} endpoints for {} ranks", connect.endpoints.size(), start.world_size)
        );
    }
    auto const program = engine::describe_program(engine_options(start));
    if (!program) {
        return program.error();
    }
    collective::Key key{};
    std::ranges::copy(*key_bytes, key.begin());
    collective::Membership const membership{
        .rank = start.device_rank,
        .instance_id = start.instance_id.value(),
        .generation = start.generation,
        .rank_map_hash = rank_map_hash(start),
        .program_hash = collective::digest_of(program->identity),
        .program = program->words,
    };
    std::vector<collective::Endpoint> endpoints;
    for (auto const& endpoint : connect.endpoints) {
        endpoints.push_back({endpoint.addresses, endpoint.port});
    }
    auto const cores = engine::physical_cores();
    auto const threads = start.threads != 0 ? start.threads : cores;
    collective::TcpOptions options;
    options.plain_on_one_machine = true;
    options.private_networks = start.private_networks;
    options.wish.format = wire_format(start.settings.wire_type);
    options.spin =
        collective::spin_time(cores, threads * ranks_here(connect.endpoints, start.device_rank));
    options.cancelled = &cancelled_;
    auto group =
        collective::TcpGroup::connect(std::move(listener), key, membership, endpoints, options);
    if (!group) {
        return group.error();
    }
    set_group(std::move(*group));
    return {};
}

void Session::set_group(std::unique_ptr<collective::Group> group) {
    std::scoped_lock const lock(group_mutex_);
    group_ = std::move(group);
}

Result<void> Session::load(ipc::Start const& start) {
    auto next_word = std::chrono::steady_clock::time_point::min();
    auto engine = engine::load_engine(
        engine_options(start),
        *group_,
        [&](engine::LoadProgress progress) {
            auto const time = std::chrono::steady_clock::now();
            if (time >= next_word || progress.layers_loaded == progress.total_layers) {
                next_word = time + progress_interval;
                (void
                )tell_status(model::RunnerLoading{progress.layers_loaded, progress.total_layers});
            }
        },
        [this](model::TaskId const& task, model::GenerationEvent event) {
            on_event(task, std::move(event));
        }
    );
    if (!engine) {
        return engine.error();
    }
    engine_ = std::move(*engine);
    EXO_TRY(tell_status(model::RunnerLoaded{}));
    EXO_TRY(tell_status(model::RunnerWarmingUp{}));
    EXO_TRY(engine_->warm_up());
    return tell_status(model::RunnerReady{});
}

// Rank 0: requests in, events out, a step at a time.
Result<void> Session::lead() {
    bool running = false;
    for (;;) {
        if (taken_.empty()) {
            taken_ = mailbox_.take(engine_->idle() ? idle_look : Duration::zero());
        }
        while (!taken_.empty()) {
            auto message = std::move(taken_.front());
            taken_.pop_front();
            if (std::holds_alternative<ipc::Shutdown>(message)) {
                (void)tell_status(model::RunnerShuttingDown{});
                engine_->abandon({Errc::unavailable, "the instance is being shut down"});
                return engine_->stop();
            }
            if (auto* const generate = std::get_if<ipc::Generate>(&message)) {
                engine_->submit(std::move(generate->request));
            } else if (auto const* const cancel = std::get_if<ipc::Cancel>(&message)) {
                engine_->cancel(cancel->task_id);
            } else {
                return Error(Errc::protocol, "the node sent Start or Connect a second time");
            }
        }
        if (mailbox_.closed()) {
            return engine_->stop();
        }
        if (running == engine_->idle()) {
            running = !running;
            EXO_TRY(
                running ? tell_status(model::RunnerRunning{}) : tell_status(model::RunnerReady{})
            );
        }
        auto const result = engine_->idle() ? group_->health() : engine_->step();
        if (!result) {
            engine_->abandon({Errc::unavailable, result.error().text()});
            return result;
        }
    }
}

Result<void> Session::obey() {
    EXO_TRY(engine_->follow());
    // Rank 0 has ended the group. Our node says so too, soon; it need not.
    return tell_status(model::RunnerShuttingDown{});
}

Result<void> Session::measure(ipc::Start const& start) {
    auto const measured = engine_->measure(*measure_);
    if (!measured) {
        return measured.error();
    }
    std::printf(
        "{\"prefill_tokens_per_second\": %.2f, \"decode_tokens_per_second\": %.2f",
        measured->prefill_tokens_per_second,
        measured->decode_tokens_per_second
    );
    if (start.settings.prompt_lookup || !start.draft_paths.empty()) {
        auto const answer = measure_answer();
        if (!answer) {
            return answer.error();
        }
        std::printf(
            ", \"drafting_tokens_per_second\": %.2f, \"drafted\": %u, \"accepted\": %u",
            answer->stats.generation_tokens_per_second,
            answer->stats.drafted_tokens.value_or(0),
            answer->stats.accepted_tokens.value_or(0)
        );
    }
    std::printf("}\n");
    std::fflush(stdout);
    return engine_->stop();
}

// What drafts are worth shows only in a text: the answer to a real request.
Result<model::GenerationFinished> Session::measure_answer() {
    model::GenerationRequest request;
    request.messages = {{.role = "user", .content = "Tell me a long story about a fox."}};
    request.sampling.temperature = 0.0;
    request.max_tokens = measure_->answer_tokens;
    engine_->submit(std::move(request));
    while (!engine_->idle()) {
        EXO_TRY(engine_->step());
    }
    if (auto const* const failed = std::get_if<model::GenerationFailed>(&*measured_)) {
        return Error(Errc::unavailable, failed->message);
    }
    return std::get<model::GenerationFinished>(*measured_);
}

Result<void> Session::tell(ipc::FromRunner const& message) {
    return channel_.write_message(message);
}

Result<void> Session::tell_status(model::RunnerStatus status) {
    return tell(ipc::FromRunner(ipc::StatusChanged{std::move(status)}));
}

void Session::on_event(model::TaskId const& task, model::GenerationEvent event) {
    if (measure_) {
        measured_ = std::move(event);
        return;
    }
    // If the node is gone, the reader knows too, and ends us.
    (void)tell(ipc::FromRunner(ipc::Generated{task, std::move(event)}));
}

} // namespace exo::runner
