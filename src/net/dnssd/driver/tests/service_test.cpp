// SPDX-License-Identifier: Apache-2.0
//
// DNS-SD as other machines see it: services in a network namespace of this process alone, with a
// virtual cable and without any daemon. Needs root; skipped with the reason otherwise.
#include "net/dnssd/driver/service.hpp"
#include "net/mdns/packet.hpp"
#include "net/wire/tests/words.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/multicast.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <sched.h>
#include <set>

namespace exo::net::dnssd {
namespace {

namespace asio = boost::asio;
using asio::ip::udp;

// Probing takes a second, a good-bye another; the machine may be busy.
constexpr Duration patience = 20s;
constexpr char const* cable = "ip link set lo up && ip link add v0 type veth peer name v1 && "
                              "ip addr add 10.9.0.1/24 dev v0 && "
                              "ip link set v1 addrgenmode none && ip link set v1 up && "
                              "ip link set v0 up";

bool run_command(std::string const& command) {
    return std::system(command.c_str()) == 0;
}

// A service, and what it has found.
struct Node {
    Node(asio::io_context& context, int number, std::string const& name, std::string network = "a")
        : service(
              context.get_executor(),
              options(number, name, std::move(network)),
              [this](Found const& one) { found.push_back(one); }
          ) {
        asio::co_spawn(context, service.run(), [](std::exception_ptr error) {
            if (error) {
                std::rethrow_exception(error);
            }
        });
    }

    static ServiceOptions options(int number, std::string const& name, std::string network) {
        return {
            .self = peer(number),
            .name = name,
            .listen = {address("/ip4/0.0.0.0/tcp/4001"), address("/ip6/::/tcp/4001")},
            .announcement =
                {
                    .device_id = peer(number).text(),
                    .os_type = "linux",
                    .version = "1.2.3",
                    .network = std::move(network),
                    .api = "local",
                },
            .refresh_interval = 200ms,
            .retry_first = 100ms,
        };
    }

    [[nodiscard]] bool has_found(int number, std::string const& at) const {
        return std::ranges::any_of(found, [&](Found const& one) {
            return one.peer == peer(number) && std::ranges::count(one.addresses, address(at)) > 0;
        });
    }

    [[nodiscard]] std::optional<AnnouncedFacts> fact(std::string const& name) const {
        for (auto const& one : service.facts()) {
            if (one.name == name) {
                return one;
            }
        }
        return std::nullopt;
    }

    std::vector<Found> found;
    Service service;
};

class ServiceTest : public testing::Test {
protected:
    void SetUp() override {
        if (unshare(CLONE_NEWNET) != 0) {
            GTEST_SKIP() << "no network namespace of our own: this test needs root";
        }
    }

    // Most tests have it; one is about a machine without.
    void plug_in() {
        if (!run_command(cable)) {
            GTEST_SKIP() << "no virtual cable (ip link add type veth) here";
        }
    }

    template <class Condition>
    [[nodiscard]] bool wait_for(Condition condition, Duration limit = patience) {
        auto const deadline = std::chrono::steady_clock::now() + limit;
        while (!condition() && std::chrono::steady_clock::now() < deadline) {
            context.run_one_for(100ms);
        }
        return condition();
    }

    asio::io_context context{1};
};

#define PLUG_IN_OR_SKIP()                                                                          \
    plug_in();                                                                                     \
    if (IsSkipped()) {                                                                             \
        return;                                                                                    \
    }                                                                                              \
    static_assert(true)

// Somebody else on the cable, who hears and says what he likes.
class Stranger {
public:
    explicit Stranger(asio::io_context& context)
        : socket_(context) {
        socket_.open(udp::v4());
        socket_.set_option(udp::socket::reuse_address(true));
        socket_.bind(udp::endpoint(udp::v4(), 5353));
        auto const here = asio::ip::make_address_v4("10.9.0.1");
        socket_.set_option(asio::ip::multicast::join_group(group_.to_v4(), here));
        socket_.set_option(asio::ip::multicast::outbound_interface(here));
        listen();
    }

    void say(Bytes const& packet) {
        socket_.send_to(asio::buffer(packet), udp::endpoint(group_, 5353));
    }

    // Of answers, not of questions: by record, all times to live that were heard.
    std::map<std::pair<std::string, std::uint16_t>, std::set<std::uint32_t>> heard;
    // When it was asked for nodes.
    std::vector<TimePoint> asked;

private:
    void listen() {
        socket_.async_receive(asio::buffer(buffer_), [this](auto error, std::size_t size) {
            if (error) {
                return;
            }
            auto const packet = mdns::decode(BytesView(buffer_).first(size));
            if (packet && packet->is_response) {
                for (auto const* section : {&packet->answers, &packet->additional}) {
                    for (auto const& record : *section) {
                        heard[{record.name.text(), record.type}].insert(record.ttl_s);
                    }
                }
            }
            if (packet && !packet->is_response) {
                mdns::Question const nodes{.name = mdns::Name::of("_exo._tcp.local")};
                if (std::ranges::count(packet->questions, nodes) > 0) {
                    asked.push_back(std::chrono::steady_clock::now());
                }
            }
            listen();
        });
    }

    asio::ip::address group_ = asio::ip::make_address("224.0.0.251");
    udp::socket socket_;
    std::array<std::uint8_t, 9000> buffer_{};
};

TEST_F(ServiceTest, nodes_of_one_network_find_each_other_by_ip4_and_ip6) {
    PLUG_IN_OR_SKIP();
    ASSERT_TRUE(run_command("ip addr add fe80::9/64 dev v0 nodad"));
    Node one(context, 1, "one");
    Node two(context, 2, "two");
    EXPECT_TRUE(wait_for([&] {
        return one.has_found(2, "/ip4/10.9.0.1/tcp/4001") &&
               two.has_found(1, "/ip4/10.9.0.1/tcp/4001");
    }));
    // Link-local addresses have the interface where they were heard.
    EXPECT_TRUE(one.has_found(2, "/ip6zone/v0/ip6/fe80::9/tcp/4001"));
    auto const fact = one.fact("two");
    ASSERT_TRUE(fact.has_value());
    EXPECT_EQ(fact->peer, peer(2).text());
    EXPECT_EQ(fact->version, "1.2.3");
    EXPECT_TRUE(fact->same_network);
    EXPECT_EQ(fact->interface, "v0");
    EXPECT_FALSE(fact->gone.has_value());
    EXPECT_FALSE(one.fact("one").has_value()) << "a node is no news to itself";
}

TEST_F(ServiceTest, a_network_of_ip6_alone_is_enough) {
    PLUG_IN_OR_SKIP();
    ASSERT_TRUE(run_command("ip addr flush dev v0 && ip addr add fe80::9/64 dev v0 nodad"));
    Node one(context, 1, "one");
    Node two(context, 2, "two");
    EXPECT_TRUE(wait_for([&] {
        return one.has_found(2, "/ip6zone/v0/ip6/fe80::9/tcp/4001") &&
               two.has_found(1, "/ip6zone/v0/ip6/fe80::9/tcp/4001");
    }));
}

TEST_F(ServiceTest, the_second_of_one_name_gets_a_number) {
    PLUG_IN_OR_SKIP();
    Node one(context, 1, "twin");
    ASSERT_TRUE(wait_for([&] { return one.service.established_name() == "twin"; }));
    Node two(context, 2, "twin");
    EXPECT_TRUE(wait_for([&] { return two.service.established_name() == "twin-2"; }));
    EXPECT_TRUE(wait_for([&] { return one.fact("twin-2").has_value() && two.fact("twin"); }));
    EXPECT_EQ(one.service.established_name(), "twin") << "who was first keeps the name";
}

TEST_F(ServiceTest, of_two_that_want_one_name_at_once_one_gets_it) {
    PLUG_IN_OR_SKIP();
    Node one(context, 1, "twin");
    Node two(context, 2, "twin");
    Node three(context, 3, "twin");
    auto const names = [&] {
        return std::set<std::string>{
            one.service.established_name(),
            two.service.established_name(),
            three.service.established_name(),
        };
    };
    EXPECT_TRUE(wait_for([&] {
        return names() == std::set<std::string>{"twin", "twin-2", "twin-3"};
    })) << testing::PrintToString(names());
}

TEST_F(ServiceTest, a_good_bye_marks_a_node_gone_and_it_is_found_again_when_it_returns) {
    PLUG_IN_OR_SKIP();
    Node one(context, 1, "one");
    auto two = std::make_unique<Node>(context, 2, "two");
    ASSERT_TRUE(wait_for([&] { return one.has_found(2, "/ip4/10.9.0.1/tcp/4001"); }));
    two->service.stop();
    EXPECT_TRUE(wait_for([&] { return one.fact("two") && one.fact("two")->gone.has_value(); }));
    EXPECT_TRUE(one.service.of_our_network().empty());

    one.found.clear();
    two = std::make_unique<Node>(context, 2, "two");
    EXPECT_TRUE(wait_for([&] { return one.has_found(2, "/ip4/10.9.0.1/tcp/4001"); }));
    EXPECT_FALSE(one.fact("two")->gone.has_value());
}

TEST_F(ServiceTest, every_record_lives_for_180_seconds) {
    PLUG_IN_OR_SKIP();
    Stranger stranger(context);
    Node one(context, 1, "one");
    auto const host = host_label(peer(1)) + ".local";
    std::array const records = {
        std::pair<std::string, std::uint16_t>("_services._dns-sd._udp.local", 12),
        std::pair<std::string, std::uint16_t>("_exo._tcp.local", 12),
        std::pair<std::string, std::uint16_t>("one._exo._tcp.local", 33),
        std::pair<std::string, std::uint16_t>("one._exo._tcp.local", 16),
        std::pair<std::string, std::uint16_t>(host, 1),
    };
    for (auto const& record : records) {
        EXPECT_TRUE(wait_for([&] { return stranger.heard.contains(record); })) << record.first;
        EXPECT_EQ(stranger.heard[record], std::set<std::uint32_t>{180}) << record.first;
    }
    stranger.heard.clear();
    one.service.stop();
    for (auto const& record : records) {
        EXPECT_TRUE(wait_for([&] { return stranger.heard[record].contains(0); }))
            << "no good-bye of " << record.first;
    }
}

TEST_F(ServiceTest, asks_often_at_first_and_then_less) {
    PLUG_IN_OR_SKIP();
    Stranger stranger(context);
    Node one(context, 1, "one");
    ASSERT_TRUE(wait_for([&] { return stranger.asked.size() >= 3; }));
    auto const first = stranger.asked[1] - stranger.asked[0];
    auto const second = stranger.asked[2] - stranger.asked[1];
    EXPECT_GT(first, 500ms);  // RFC 6762 5.2: after a second,
    EXPECT_GT(second, first); // then after twice as long each time.
}

TEST_F(ServiceTest, a_node_of_another_network_is_remembered_and_not_dialled) {
    PLUG_IN_OR_SKIP();
    Node one(context, 1, "one", "a");
    Node two(context, 2, "two", "b");
    ASSERT_TRUE(wait_for([&] { return one.fact("two") && !one.fact("two")->peer.empty(); }));
    EXPECT_FALSE(one.fact("two")->same_network);
    EXPECT_TRUE(one.found.empty());
    // It joins ours.
    auto joined = Node::options(2, "two", "a").announcement;
    two.service.set_announcement(joined);
    EXPECT_TRUE(wait_for([&] { return one.has_found(2, "/ip4/10.9.0.1/tcp/4001"); }));
    EXPECT_TRUE(wait_for([&] { return two.has_found(1, "/ip4/10.9.0.1/tcp/4001"); }));
}

TEST_F(ServiceTest, addresses_are_followed_as_they_come_and_go) {
    PLUG_IN_OR_SKIP();
    Node one(context, 1, "one");
    Node two(context, 2, "two");
    ASSERT_TRUE(wait_for([&] { return one.has_found(2, "/ip4/10.9.0.1/tcp/4001"); }));
    ASSERT_TRUE(run_command("ip addr add 10.9.0.7/24 dev v0"));
    EXPECT_TRUE(wait_for([&] { return one.has_found(2, "/ip4/10.9.0.7/tcp/4001"); }));
    ASSERT_TRUE(run_command("ip addr del 10.9.0.7/24 dev v0"));
    EXPECT_TRUE(wait_for([&] {
        auto const now = one.service.of_our_network();
        return now.size() == 1 &&
               std::ranges::count(now[0].addresses, address("/ip4/10.9.0.7/tcp/4001")) == 0;
    }));
}

TEST_F(ServiceTest, B074_each_interface_is_told_its_own_addresses_alone) {
    PLUG_IN_OR_SKIP();
    ASSERT_TRUE(run_command("ip link add docker0 type veth peer name w1 && "
                            "ip addr add 172.17.0.1/16 dev docker0 && "
                            "ip link set w1 addrgenmode none && ip link set w1 up && "
                            "ip link set docker0 up"));
    Node one(context, 1, "one");
    Node two(context, 2, "two");
    std::map<std::string, std::string> first_address;
    EXPECT_TRUE(wait_for([&] {
        for (auto const& fact : one.service.facts()) {
            for (auto const& text : fact.addresses) {
                bool const is_ip4 = text.starts_with("/ip4/");
                EXPECT_TRUE(!is_ip4 || text.starts_with("/ip4/10.9.") == (fact.interface == "v0"))
                    << text << " on " << fact.interface;
            }
            if (!fact.addresses.empty()) {
                first_address[fact.interface] = fact.addresses[0];
            }
        }
        return first_address.size() == 2;
    }));
    EXPECT_TRUE(first_address["v0"].starts_with("/ip4/10.9.0.1/"));
    EXPECT_TRUE(first_address["docker0"].starts_with("/ip4/172.17.0.1/"));
}

TEST_F(ServiceTest, a_machine_without_a_network_waits_for_one) {
    Node one(context, 1, "one");
    Node two(context, 2, "two");
    EXPECT_FALSE(wait_for([&] { return !one.found.empty(); }, 500ms));
    PLUG_IN_OR_SKIP();
    EXPECT_TRUE(wait_for([&] { return one.has_found(2, "/ip4/10.9.0.1/tcp/4001"); }));
}

TEST_F(ServiceTest, what_cannot_start_is_tried_again) {
    PLUG_IN_OR_SKIP();
    // A program that shares port 5353 with nobody.
    udp::socket ip4(context, udp::endpoint(udp::v4(), 5353));
    udp::socket ip6(context);
    ip6.open(udp::v6());
    ip6.set_option(asio::ip::v6_only(true));
    ip6.bind(udp::endpoint(udp::v6(), 5353));
    Node one(context, 1, "one");
    EXPECT_FALSE(wait_for([&] { return !one.service.established_name().empty(); }, 500ms));
    ip4.close();
    ip6.close();
    EXPECT_TRUE(wait_for([&] { return one.service.established_name() == "one"; }));
}

// A packet that only a CNAME makes unfit, from the hands of somebody on the local network.
Bytes cname_packet(std::string const& name, std::string const& target) {
    Bytes packet = {0, 0, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0};
    auto const append_name = [](Bytes& to, std::string const& dotted) {
        auto const parts = mdns::Name::of(dotted);
        for (auto const& label : parts.labels()) {
            to.push_back(static_cast<std::uint8_t>(label.size()));
            append(to, as_bytes(label));
        }
        to.push_back(0);
    };
    constexpr std::uint8_t ttl_of_record = 1;
    append_name(packet, name);
    append(packet, std::array<std::uint8_t, 7>{0, 5, 0, 1, 0, 0, 0});
    packet.push_back(ttl_of_record);
    Bytes data;
    append_name(data, target);
    packet.push_back(0);
    packet.push_back(static_cast<std::uint8_t>(data.size()));
    append(packet, data);
    return packet;
}

TEST_F(ServiceTest, cname_records_on_the_network_do_no_harm) {
    PLUG_IN_OR_SKIP();
    Stranger stranger(context);
    Node one(context, 1, "one");
    ASSERT_TRUE(wait_for([&] { return !one.service.established_name().empty(); }));
    std::string const type = "_exo._tcp.local";
    for (int i = 0; i < 2; ++i) {
        stranger.say(cname_packet(type, type)); // Of itself.
        stranger.say(cname_packet(type, "x.local"));
        stranger.say(cname_packet("x.local", type));
        stranger.say(cname_packet("one." + type, type));
        (void)wait_for([] { return false; }, 1100ms); // They run out.
    }
    Node two(context, 2, "two");
    EXPECT_TRUE(wait_for([&] { return one.has_found(2, "/ip4/10.9.0.1/tcp/4001"); }));
}

} // namespace
} // namespace exo::net::dnssd
