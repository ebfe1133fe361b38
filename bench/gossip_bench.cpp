// SPDX-License-Identifier: Apache-2.0
//
// How fast gossip gets around: real Hosts of one process, all connected with each other over
// loopback TCP, a thread each as a node has. All publish small messages at a steady rate; measured
// is the time from the moment at which a message was due to each other host's on_gossip. Beside it,
// in the same run, what a bare Ed25519 check of such a message costs: it bounds what any
// implementation can do.
//
//     gossip_bench [--hosts N] [--rate MESSAGES_PER_SECOND] [--seconds N] [--bytes N]
//
// Numbers of a busy machine say nothing. Exits with 1 if a message was lost or came twice.
#include "base/log.hpp"
#include "net/gossipsub/message.hpp"
#include "net/host/async.hpp"
#include "net/host/host.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_future.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstring>
#include <future>
#include <memory>
#include <sys/resource.h>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace exo;
using namespace exo::net;

constexpr char const* topic = "events";
constexpr Duration warm_up = 1s;
constexpr Duration settling_max = 30s;

struct Settings {
    std::size_t hosts = 8;
    std::size_t rate = 1500;
    std::size_t seconds = 5;
    std::size_t bytes = 256;
};

// What a message begins with: which it is, and when it was due.
struct Stamp {
    std::uint64_t number = 0;
    TimePoint::rep due = 0;
};

double to_ms(Duration time) {
    return std::chrono::duration<double, std::milli>(time).count();
}

Duration processor_time() {
    rusage usage{};
    (void)getrusage(RUSAGE_SELF, &usage);
    auto const of = [](timeval const& time) -> Duration {
        return std::chrono::seconds(time.tv_sec) + std::chrono::microseconds(time.tv_usec);
    };
    return of(usage.ru_utime) + of(usage.ru_stime);
}

// One host on a thread of its own.
class Participant {
public:
    Participant(std::uint8_t number, Settings const& settings)
        : settings_(settings)
        , host_(io_.get_executor(), options_of(number), callbacks()) {
        auto const started = host_.start();
        if (!started) {
            fmt::print(stderr, "{}\n", started.error().text());
            std::exit(1);
        }
        thread_ = std::thread([this] { io_.run(); });
    }

    ~Participant() {
        auto const stopped = asio::co_spawn(io_, host_.stop(), asio::use_future);
        stopped.wait();
        io_.stop();
        thread_.join();
    }

    Participant(Participant const&) = delete;
    Participant& operator=(Participant const&) = delete;

    // Runs `ask` on the host's thread and returns what it returns.
    template <class Ask>
    auto on_thread(Ask ask) {
        std::packaged_task<decltype(ask(host_))()> task([&] { return ask(host_); });
        auto answer = task.get_future();
        asio::post(io_, [&task] { task(); });
        return answer.get();
    }

    // From `start` on, at the times that the rate says, whatever has become of earlier ones.
    std::future<void> publish_from(TimePoint start, Duration interval, std::size_t count) {
        return asio::co_spawn(io_, publish_all(start, interval, count), asio::use_future);
    }

    [[nodiscard]] std::size_t received_count() const { return received_count_; }

    // Of all that was received since the last call.
    std::vector<Duration> take_latencies() {
        return on_thread([this](Host&) {
            received_count_ = 0;
            return std::exchange(latencies_, {});
        });
    }

private:
    static HostOptions options_of(std::uint8_t number) {
        Seed seed{};
        seed.fill(number);
        HostOptions options{.identity = Identity::from_seed(seed)};
        options.psk = psk_of_namespace("gossip_bench");
        options.listen = {Multiaddr::parse("/ip4/127.0.0.1/tcp/0").value()};
        options.topics = {topic};
        options.agent_version = "exo/bench";
        options.mdns = false;
        return options;
    }

    HostCallbacks callbacks() {
        return {.on_gossip = [this](std::string const&, PeerId const&, Bytes const& data) {
            Stamp stamp;
            std::memcpy(&stamp, data.data(), sizeof stamp);
            latencies_.push_back(now() - TimePoint(Duration(stamp.due)));
            ++received_count_;
        }};
    }

    asio::awaitable<void> publish_all(TimePoint start, Duration interval, std::size_t count) {
        Bytes data(std::max(settings_.bytes, sizeof(Stamp)), 'x');
        for (std::size_t i = 0; i < count; ++i) {
            auto const due = start + interval * static_cast<Duration::rep>(i);
            co_await pause_until(due);
            Stamp const stamp{.number = i, .due = due.time_since_epoch().count()};
            std::memcpy(data.data(), &stamp, sizeof stamp);
            (void)host_.publish(topic, data);
        }
    }

    Settings settings_;
    asio::io_context io_{1};
    std::vector<Duration> latencies_;
    std::atomic<std::size_t> received_count_ = 0;
    Host host_;
    std::thread thread_;
};

using Participants = std::vector<std::unique_ptr<Participant>>;

template <class Condition>
bool wait_for(Condition const& condition) {
    auto const deadline = now() + settling_max;
    while (!condition()) {
        if (now() > deadline) {
            return false;
        }
        std::this_thread::sleep_for(5ms);
    }
    return true;
}

// The smaller number dials, so that each pair has one connection.
bool connect_all(Participants const& all) {
    for (std::size_t to = 1; to < all.size(); ++to) {
        auto const address =
            all[to]->on_thread([](Host& host) { return host.listen_addresses().at(0); });
        for (std::size_t from = 0; from < to; ++from) {
            all[from]->on_thread([&](Host& host) {
                host.dial(address);
                return 0;
            });
        }
    }
    return wait_for([&] {
        return std::ranges::all_of(all, [&](auto const& one) {
            return one->on_thread([](Host& host) { return host.connected_peers().size(); }) ==
                   all.size() - 1;
        });
    });
}

// The time of one check, in the middle of some hundred.
Duration measure_verify(Settings const& settings) {
    auto const author = Identity::generate();
    std::vector<Duration> times;
    for (std::uint64_t i = 0; i < 500; ++i) {
        Bytes const data(settings.bytes, 'x');
        auto const message = gossipsub::sign_message(author, i, topic, data);
        auto const signature = author.sign(*message.encoded);
        auto const begin = now();
        bool const good = verify(author.public_key(), *message.encoded, signature);
        times.push_back(now() - begin);
        if (!good) {
            std::abort();
        }
    }
    std::ranges::nth_element(times, times.begin() + std::ssize(times) / 2);
    return times[times.size() / 2];
}

struct Run {
    Duration wall;
    Duration processor;
    std::vector<Duration> latencies; // Sorted.
    std::size_t expected = 0;
};

Run run(Participants const& all, Settings const& settings, Duration duration) {
    auto const hosts = static_cast<Duration::rep>(all.size());
    auto const interval = Duration(1s) / static_cast<Duration::rep>(settings.rate) * hosts;
    auto const count = static_cast<std::size_t>(duration / interval);
    auto const processor = processor_time();
    auto const start = now();
    std::vector<std::future<void>> published;
    for (std::size_t i = 0; i < all.size(); ++i) {
        auto const phase = interval / hosts * static_cast<Duration::rep>(i);
        published.push_back(all[i]->publish_from(start + phase, interval, count));
    }
    for (auto& one : published) {
        one.wait();
    }
    Run result{.expected = count * all.size() * (all.size() - 1)};
    (void)wait_for([&] {
        std::size_t received = 0;
        for (auto const& one : all) {
            received += one->received_count();
        }
        return received >= result.expected;
    });
    result.wall = now() - start;
    result.processor = processor_time() - processor;
    for (auto const& one : all) {
        std::ranges::copy(one->take_latencies(), std::back_inserter(result.latencies));
    }
    std::ranges::sort(result.latencies);
    return result;
}

void print(Run const& run, Settings const& settings, Duration verify_time) {
    auto const at = [&](double share) {
        auto const last = static_cast<double>(run.latencies.size() - 1);
        return to_ms(run.latencies[static_cast<std::size_t>(share * last)]);
    };
    auto const seconds = to_ms(run.wall) / 1e3;
    auto const received_per_s = static_cast<double>(run.latencies.size()) / seconds;
    auto const verifying = received_per_s * to_ms(verify_time) / 1e3;
    auto const busy = to_ms(run.processor) / to_ms(run.wall);
    fmt::print(
        "{} hosts, {} messages/s of {} bytes for {:.1f} s: {} of {} received\n",
        settings.hosts,
        settings.rate,
        settings.bytes,
        seconds,
        run.latencies.size(),
        run.expected
    );
    fmt::print(
        "from due to received, ms: p50 {:.2f}  p95 {:.2f}  p99 {:.2f}  max {:.2f}\n",
        at(0.5),
        at(0.95),
        at(0.99),
        at(1)
    );
    fmt::print(
        "one bare check: {:.1f} us; {:.0f} checks/s take {:.2f} cores of the {:.2f} in use ({:.0f} "
        "%)\n",
        to_ms(verify_time) * 1e3,
        received_per_s,
        verifying,
        busy,
        100 * verifying / busy
    );
}

} // namespace

int main(int argc, char** argv) {
    Settings settings;
    for (int i = 1; i + 1 < argc; i += 2) {
        std::string_view const name(argv[i]);
        std::string_view const value(argv[i + 1]);
        auto* const target = name == "--hosts"     ? &settings.hosts
                             : name == "--rate"    ? &settings.rate
                             : name == "--seconds" ? &settings.seconds
                             : name == "--bytes"   ? &settings.bytes
                                                   : nullptr;
        if (target == nullptr ||
            std::from_chars(value.data(), value.data() + value.size(), *target).ec != std::errc{}) {
            argc = 0;
        }
    }
    if (argc % 2 == 0 || settings.hosts < 2 || settings.rate == 0) {
        fmt::print(stderr, "usage: {} [--hosts N] [--rate N] [--seconds N] [--bytes N]\n", argv[0]);
        return 2;
    }
    log::start(log::Level::error, "");
    auto const verify_time = measure_verify(settings);
    Participants all;
    for (std::size_t i = 0; i < settings.hosts; ++i) {
        all.push_back(std::make_unique<Participant>(static_cast<std::uint8_t>(i + 1), settings));
    }
    if (!connect_all(all)) {
        fmt::print(stderr, "the hosts have not found each other\n");
        return 1;
    }
    (void)run(all, settings, warm_up);
    auto const measured = run(all, settings, std::chrono::seconds(settings.seconds));
    print(measured, settings, verify_time);
    return measured.latencies.size() == measured.expected ? 0 : 1;
}
