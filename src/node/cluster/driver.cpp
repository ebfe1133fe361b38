// SPDX-License-Identifier: Apache-2.0
#include "node/cluster/driver.hpp"

#include "base/entropy.hpp"
#include "base/log.hpp"
#include "base/overloaded.hpp"
#include "net/host/async.hpp"
#include "node/cluster/outbox.hpp"
#include "storage/files/files.hpp"

#include <boost/asio/steady_timer.hpp>
#include <fmt/format.h>

#include <charconv>

namespace exo::node {
namespace {

namespace rep = exo::replica;

constexpr std::size_t clock_file_bytes_max = 64;
// Between tries to find out whether a new peer is an exo node.
constexpr Duration greet_interval = 1s;
constexpr int greet_attempts_max = 10;

using net::now;

Result<std::uint64_t> read_clock(std::filesystem::path const& file) {
    auto const bytes = storage::read_file(file, clock_file_bytes_max);
    if (!bytes) {
        if (bytes.error().code() == Errc::not_found) {
            return std::uint64_t{0};
        }
        return bytes.error();
    }
    auto const text = as_text(*bytes);
    std::uint64_t clock = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), clock);
    if (error != std::errc() || end == text.data()) {
        return Error(
            Errc::corrupt,
            fmt::format(
                "{} holds no number, but the election clock should be there: delete the file to "
                "start from 0",
                file.string()
            )
        );
    }
    return clock;
}

} // namespace

class ClusterDriver::Impl : public std::enable_shared_from_this<Impl> {
public:
    Impl(asio::any_io_executor executor, Options options, std::uint64_t stored_clock)
        : options_(std::move(options))
        , replica_(
              rep::Config{
                  .self = options_.self,
                  .boot = options_.boot,
                  .stored_clock = stored_clock,
                  .force_master = options_.force_master,
                  .seed = random_u64(),
              },
              now()
          )
        , scope_(executor)
        , timer_(executor) {}

    void attach(net::Host& host) {
        host_ = &host;
        for (auto const protocol :
             {rep::alive_protocol, rep::command_protocol, rep::events_protocol, rep::log_protocol
             }) {
            host.handle(std::string(protocol), [this](std::unique_ptr<net::Stream> stream) {
                return read_all(std::move(stream));
            });
        }
    }

    void start() { step(rep::Started{}); }

    asio::awaitable<void> stop() {
        stopped_ = true;
        timer_.cancel();
        peers_.clear();
        co_await scope_.stop();
    }

    // ---- what the host tells

    void peer_connected(net::PeerId const& peer) {
        scope_.spawn("greeting " + peer.text(), greet(peer));
    }

    void peer_disconnected(net::PeerId const& peer) {
        model::NodeId const node(peer.text());
        if (peers_.erase(node) > 0) {
            log::info("cluster", "lost node {}", node.value());
            step(rep::PeerDisconnected{node});
        }
    }

    void gossip(std::string const& topic, net::PeerId const& author, Bytes const& data) {
        auto gossip = rep::decode_gossip(as_text(data));
        if (!gossip) {
            ++malformed_;
            log::debug("cluster", "malformed message on {}: {}", topic, gossip.error().text());
            return;
        }
        step(rep::MessageReceived{
            .from = model::NodeId(author.text()),
            .message = std::move(gossip->message),
            .by_gossip = true,
            .to = gossip->to,
        });
    }

    // ---- one step of the protocol

    void step(rep::Input const& input) {
        if (stopped_) {
            return;
        }
        for (auto const& output : replica_.step(input, now())) {
            std::visit([this](auto const& out) { carry_out(out); }, output);
        }
        arm();
    }

    asio::awaitable<Result<model::CommandOutcome>>
    command(model::CommandId id, model::Command command) {
        auto const pending = std::make_shared<Pending>();
        pending_.insert_or_assign(id, pending);
        step(rep::CommandRequested{id, std::move(command)});
        while (!pending->outcome) {
            co_await pending->answered.wait(command_recheck);
        }
        co_return *pending->outcome;
    }

    [[nodiscard]] rep::Replica const& replica() const { return replica_; }

    [[nodiscard]] Notify& changed() { return changed_; }

private:
    static constexpr Duration command_recheck = 1s;

    struct Pending {
        std::optional<Result<model::CommandOutcome>> outcome;
        Notify answered;
    };

    // The streams to one exo node, by protocol.
    using Peer = std::map<std::string_view, std::unique_ptr<Outbox>>;

    // A peer is an exo node if it takes the alive protocol.
    asio::awaitable<void> greet(net::PeerId peer) {
        model::NodeId const node(peer.text());
        for (int attempt = 0; attempt < greet_attempts_max; ++attempt) {
            auto const stream = co_await host_->open_stream(peer, std::string(rep::alive_protocol));
            if (stream) {
                if (peers_.try_emplace(node).second) {
                    log::info("cluster", "met node {}", node.value());
                    step(rep::PeerConnected{node});
                }
                co_return;
            }
            if (stream.error().code() == Errc::protocol) {
                log::debug("cluster", "peer {} is no exo node", peer.text());
                co_return;
            }
            if (stream.error().code() == Errc::unavailable) {
                co_return; // Gone again.
            }
            co_await sleep_for(greet_interval);
        }
    }

    asio::awaitable<void> read_all(std::unique_ptr<net::Stream> stream) {
        model::NodeId const from(stream->peer().text());
        while (true) {
            auto const bytes = co_await net::read_message(*stream, rep::message_bytes_max);
            if (!bytes) {
                co_return;
            }
            auto message = rep::decode(*bytes);
            if (!message) {
                ++malformed_;
                log::debug(
                    "cluster", "malformed message of {}: {}", from.value(), message.error().text()
                );
                continue;
            }
            rep::MessageReceived received;
            received.from = from;
            received.message = std::move(*message);
            step(received);
        }
    }

    // ---- outputs

    // Synced here and now, on the network thread: nothing that carries the clock may leave before
    // (E1), and it changes only when nodes come or go.
    void carry_out(rep::StoreClock const& out) {
        auto const text = fmt::format("{}\n", out.clock);
        if (auto const stored = storage::atomic_write(options_.clock_file, as_bytes(text));
            !stored) {
            log::error("cluster", "cannot store the election clock: {}", stored.error().text());
        }
    }

    void carry_out(rep::Send const& out) {
        auto const peer = peers_.find(out.to);
        if (peer == peers_.end()) {
            return; // Gone meanwhile; the replica hears of it by PeerDisconnected.
        }
        auto const protocol = rep::protocol_of(out.message);
        auto& outbox = peer->second[protocol];
        auto const id = net::PeerId::parse(out.to.value());
        if (!id) {
            return;
        }
        if (!outbox) {
            auto const keep =
                protocol == rep::alive_protocol ? Outbox::Keep::newest : Outbox::Keep::all;
            outbox = std::make_unique<Outbox>(scope_, *host_, *id, std::string(protocol), keep);
        }
        if (!outbox->push(rep::encode(out.message))) {
            log::warning("cluster", "node {} does not read; closing", out.to.value());
            host_->disconnect(*id);
        }
    }

    void carry_out(rep::Publish const& out) {
        auto const text = rep::encode_gossip(out.gossip);
        if (auto const sent = host_->publish(std::string(out.topic), as_bytes(text)); !sent) {
            log::warning("cluster", "cannot publish: {}", sent.error().text());
        }
    }

    void carry_out(rep::CommandAnswered const& out) {
        auto const pending = pending_.extract(out.command_id);
        if (!pending.empty()) {
            pending.mapped()->outcome = out.outcome;
            pending.mapped()->answered.notify();
        }
    }

    void carry_out(rep::EventAppended const& out) {
        log::trace("cluster", "event {}: {}", out.record.position.index, out.record.event);
    }

    void carry_out(rep::SnapshotInstalled const& out) {
        log::info("cluster", "took over the state at event {}", out.position.index);
    }

    void carry_out(rep::StateChanged const&) { changed_.notify(); }

    void carry_out(rep::MasterChanged const& out) {
        if (out.master) {
            bool const self = *out.master == options_.self;
            log::info("cluster", "master is {}{}", out.master->value(), self ? " (this node)" : "");
        } else {
            log::info("cluster", "no master");
        }
        changed_.notify();
    }

    void carry_out(rep::PeerLost const& out) {
        log::warning("cluster", "node {} has gone silent", out.node_id.value());
        if (auto const peer = net::PeerId::parse(out.node_id.value())) {
            host_->disconnect(*peer);
        }
    }

    void carry_out(rep::CopiedKey const& out) {
        log::error(
            "cluster",
            "another process runs with this node's key (boot {:016x}){}",
            out.other_boot,
            out.make_new_key ? ": delete node_id.keypair here and start again" : ""
        );
    }

    void arm() {
        auto const deadline = replica_.deadline();
        if (deadline == armed_) {
            return;
        }
        armed_ = deadline;
        timer_.expires_at(deadline);
        timer_.async_wait([weak = weak_from_this()](boost::system::error_code error) {
            auto const self = weak.lock();
            if (!error && self) {
                self->armed_.reset();
                self->step(rep::Tick{});
            }
        });
    }

    Options options_;
    rep::Replica replica_;
    net::Host* host_ = nullptr;
    Scope scope_;
    Notify changed_;
    asio::steady_timer timer_;
    std::optional<TimePoint> armed_;
    std::map<model::NodeId, Peer> peers_; // Exo nodes only.
    std::map<model::CommandId, std::shared_ptr<Pending>> pending_;
    std::uint64_t malformed_ = 0;
    bool stopped_ = false;
};

ClusterDriver::ClusterDriver(
    asio::any_io_executor executor, Options options, std::uint64_t stored_clock
)
    : impl_(std::make_shared<Impl>(std::move(executor), std::move(options), stored_clock)) {}

ClusterDriver::~ClusterDriver() = default;

Result<std::unique_ptr<ClusterDriver>>
ClusterDriver::create(asio::any_io_executor executor, Options options) {
    auto const clock = read_clock(options.clock_file);
    if (!clock) {
        return clock.error();
    }
    return std::unique_ptr<ClusterDriver>(
        new ClusterDriver(std::move(executor), std::move(options), *clock)
    );
}

net::HostCallbacks ClusterDriver::host_callbacks() {
    net::HostCallbacks callbacks;
    callbacks.on_peer_connected = [this](net::PeerId const& peer) { impl_->peer_connected(peer); };
    callbacks.on_peer_disconnected = [this](net::PeerId const& peer) {
        impl_->peer_disconnected(peer);
    };
    callbacks.on_gossip = [this](
                              std::string const& topic, net::PeerId const& author, Bytes const& data
                          ) { impl_->gossip(topic, author, data); };
    return callbacks;
}

void ClusterDriver::attach(net::Host& host) {
    impl_->attach(host);
}

std::vector<std::string> ClusterDriver::topics() {
    return {
        std::string(rep::global_events_topic),
        std::string(rep::local_events_topic),
        std::string(rep::commands_topic),
        std::string(rep::election_messages_topic),
        "download_commands", // Nothing is said there yet; peers expect the subscription.
    };
}

void ClusterDriver::start() {
    impl_->start();
}

asio::awaitable<void> ClusterDriver::stop() {
    return impl_->stop();
}

model::NodeId const& ClusterDriver::self() const {
    return impl_->replica().self();
}

model::State const& ClusterDriver::state() const {
    return impl_->replica().state();
}

model::Observations const& ClusterDriver::observations() const {
    return impl_->replica().observations();
}

std::optional<model::NodeId> ClusterDriver::master() const {
    return impl_->replica().master();
}

bool ClusterDriver::settled() const {
    return impl_->replica().settled();
}

std::optional<TimePoint> ClusterDriver::heard(model::NodeId const& node) const {
    auto const& heard = impl_->replica().heard();
    auto const found = heard.find(node);
    return found == heard.end() ? std::nullopt : std::optional(found->second);
}

std::map<model::InstanceId, std::uint32_t> ClusterDriver::loads() const {
    std::map<model::InstanceId, std::uint32_t> loads;
    for (auto const& [id, task] : state().tasks) {
        if (!is_terminal(task_status(task))) {
            ++loads[task_instance(task)];
        }
    }
    return loads;
}

std::set<model::NodeId> ClusterDriver::silent() const {
    std::set<model::NodeId> silent;
    for (auto const& [node, member] : state().members) {
        auto const when = heard(node);
        if (node != self() && (!when || now() - *when > silent_limit)) {
            silent.insert(node);
        }
    }
    return silent;
}

Notify& ClusterDriver::changed() {
    return impl_->changed();
}

asio::awaitable<Result<model::CommandOutcome>>
ClusterDriver::command(model::CommandId id, model::Command command) {
    return impl_->command(std::move(id), std::move(command));
}

void ClusterDriver::set_levels(
    std::vector<model::ReportedRunner> runners, std::vector<model::Task> tasks
) {
    impl_->step(rep::LevelsChanged{std::move(runners), std::move(tasks)});
}

void ClusterDriver::set_info(model::NodeInfo info) {
    impl_->step(rep::ObservationChanged{std::move(info)});
}

} // namespace exo::node
