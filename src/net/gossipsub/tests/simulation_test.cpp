// SPDX-License-Identifier: Apache-2.0
//
// Many routers on a virtual network with delays, few links and lost RPCs: every subscriber gets
// every message exactly once. Repeatable by its seed.
#include "gossip_fixture.hpp"

#include <map>
#include <tuple>

namespace exo::net::gossipsub {
namespace {

constexpr std::uint8_t node_count = 16;

// Each link is one stream in each direction: RPCs arrive in order, late, or (if `loss` says so) not
// at all, as when a stream dies with what it holds.
class Network {
public:
    Network(std::uint64_t seed, std::uint64_t neighbours, std::uint64_t loss_percent)
        : random_(seed)
        , loss_percent_(loss_percent) {
        for (std::uint8_t i = 0; i < node_count; ++i) {
            numbers_[peer(number_of(i))] = i;
            routers_.emplace_back(identity(number_of(i)), Random(seed * 100 + i), 1, now_);
        }
        for (std::uint8_t i = 0; i < node_count; ++i) {
            // A ring keeps the graph connected; the rest is chance.
            connect(i, static_cast<std::uint8_t>((i + 1) % node_count));
            for (std::uint64_t k = 1; k < neighbours; ++k) {
                connect(i, static_cast<std::uint8_t>(random_.below(node_count)));
            }
        }
        for (auto& router : routers_) {
            router.subscribe("a", now_);
        }
        flush();
    }

    void publish(std::uint8_t i, std::string const& text) {
        ASSERT_TRUE(routers_[i].publish("a", as_bytes(text), now_));
        flush();
    }

    // Runs all that is due, heartbeats included.
    void run_for(Duration time) {
        auto const end = now_ + time;
        while (true) {
            auto const beat = next_heartbeat();
            auto const rpc_time = wire_.empty() ? TimePoint::max() : std::get<0>(first());
            if (std::min(beat, rpc_time) > end) {
                break;
            }
            now_ = std::max(now_, std::min(beat, rpc_time));
            rpc_time <= beat ? deliver() : heartbeat();
            flush();
        }
        now_ = end;
    }

    void lose(std::uint64_t percent) { loss_percent_ = percent; }

    // How often each text has arrived at each node.
    std::map<std::pair<std::uint8_t, std::string>, int> received;

private:
    using Key = std::tuple<TimePoint, std::uint64_t, std::uint8_t, std::uint8_t>;

    static std::uint8_t number_of(std::uint8_t i) { return static_cast<std::uint8_t>(i + 1); }

    void connect(std::uint8_t a, std::uint8_t b) {
        if (a != b) {
            routers_[a].peer_connected(peer(number_of(b)));
            routers_[b].peer_connected(peer(number_of(a)));
        }
    }

    Key const& first() const { return wire_.begin()->first; }

    TimePoint next_heartbeat() const {
        auto time = TimePoint::max();
        for (auto const& router : routers_) {
            time = std::min(time, router.deadline());
        }
        return time;
    }

    void heartbeat() {
        for (auto& router : routers_) {
            if (router.deadline() <= now_) {
                router.heartbeat(now_);
            }
        }
    }

    void deliver() {
        auto const entry = wire_.extract(wire_.begin());
        auto const [time, order, from, to] = entry.key();
        ASSERT_TRUE(routers_[to].receive(peer(number_of(from)), entry.mapped(), now_));
        while (auto event = routers_[to].next_event()) {
            ++received[{to, std::string(as_text(event->data))}];
        }
    }

    void flush() {
        for (std::uint8_t from = 0; from < node_count; ++from) {
            for (auto const& id : routers_[from].ready_peers()) {
                while (auto rpc = routers_[from].next_rpc(id, now_)) {
                    send(from, numbers_.at(id), std::move(*rpc));
                }
            }
        }
    }

    void send(std::uint8_t from, std::uint8_t to, Bytes rpc) {
        // Announcements are never lost here: on a real stream they are not without the stream.
        bool const may_be_lost = rpc_of(rpc).publish_size() > 0;
        if (may_be_lost && random_.chance(loss_percent_, 100)) {
            return;
        }
        auto& last = last_[{from, to}];
        last = std::max(last, now_ + std::chrono::milliseconds(1 + random_.below(100)));
        wire_.emplace(Key{last, ++order_, from, to}, std::move(rpc));
    }

    Random random_;
    std::uint64_t loss_percent_;
    TimePoint now_ = start;
    std::vector<Router> routers_;
    std::map<PeerId, std::uint8_t> numbers_;
    std::map<Key, Bytes> wire_;
    std::map<std::pair<std::uint8_t, std::uint8_t>, TimePoint> last_;
    std::uint64_t order_ = 0;
};

void expect_everyone_got(
    Network const& network, std::map<std::string, std::uint8_t> const& authors, std::uint64_t seed
) {
    for (auto const& [text, author] : authors) {
        for (std::uint8_t i = 0; i < node_count; ++i) {
            auto const found = network.received.find({i, text});
            int const count = found == network.received.end() ? 0 : found->second;
            ASSERT_EQ(count, i == author ? 0 : 1) << text << " at " << int{i} << ", seed " << seed;
        }
    }
}

std::map<std::string, std::uint8_t> publish_some(Network& network, std::uint64_t seed) {
    Random random(seed);
    std::map<std::string, std::uint8_t> authors;
    for (int i = 0; i < 12; ++i) {
        auto const author = static_cast<std::uint8_t>(random.below(node_count));
        // Some of them so large that IDONTWANT comes into play.
        auto const text = "message " + std::to_string(i) + std::string(random.below(2) * 2000, 'x');
        network.publish(author, text);
        authors[text] = author;
        network.run_for(std::chrono::milliseconds(random.below(300)));
    }
    return authors;
}

TEST(GossipSimulation, every_subscriber_gets_every_message_once_at_whatever_time_it_is_sent) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        Network network(seed, 1 + seed % 4, 0);
        network.run_for(1s); // Subscriptions are there; no heartbeat yet.
        auto const authors = publish_some(network, seed);
        network.run_for(2s);
        ASSERT_NO_FATAL_FAILURE(expect_everyone_got(network, authors, seed));
    }
}

TEST(GossipSimulation, a_tenth_of_the_messages_lost_is_made_up_for_by_the_mesh_and_gossip) {
    for (std::uint64_t seed = 0; seed < 10; ++seed) {
        Network network(seed, 8, 0);
        network.run_for(10s);
        network.lose(10);
        auto const authors = publish_some(network, seed);
        network.run_for(8s);
        ASSERT_NO_FATAL_FAILURE(expect_everyone_got(network, authors, seed));
    }
}

} // namespace
} // namespace exo::net::gossipsub
