// SPDX-License-Identifier: Apache-2.0
//
// The HTTP server of a node: OpenAI's chat and exo's own routes over one Backend. Lives on the
// network thread; every connection is a coroutine owned by the server.
//
// Limits (Options::limits) bound what a client can take: header, body, time to send them, idle
// time, connections, and what waits for a slow reader of a stream. A client that hangs up has its
// Generation destroyed at once, whether it reads a stream or waits for an answer.
//
// Browsers: a page may use the API from its own server's origin, from loopback origins, and from
// Options::allowed_origins. Requests from other origins get no Access-Control-Allow-Origin, and
// those that change something are refused (403), for a browser sends them before it asks.
// Credentials are never allowed. The Host header is not checked: a name that an attacker makes
// resolve to this machine (DNS rebinding) counts as the server's own origin.
#pragma once

#include "api/backend.hpp"
#include "base/result.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace exo::api::http {

struct Limits {
    std::uint32_t header_bytes_max = 32 * 1024; // As large as other servers allow.
    std::uint64_t body_bytes_max = 32u << 20;   // Long prompts; images come later.
    std::chrono::milliseconds header_time{10'000
    }; // Slow-loris clients hold a connection no longer.
    std::chrono::milliseconds body_time{60'000};  // 32 MiB at 4 Mbit/s.
    std::chrono::milliseconds idle_time{75'000};  // Longer than the 60 s of common proxies.
    std::chrono::milliseconds write_time{30'000}; // For one write to make progress.
    std::chrono::milliseconds keep_alive_time{10'000};
    // A failure within this time of a streamed request gets its own status code; a stream that has
    // begun can only carry it as an event.
    std::chrono::milliseconds head_time{200};
    std::size_t connections_max = 512;
    std::size_t stream_bytes_max = 1u << 20; // What a slow reader may leave waiting ...
    std::size_t stream_events_max = 4096;    // ... before its request is cancelled.
    // What the system holds for a slow reader besides; left alone it grows to megabytes, and the
    // two limits above would come late.
    int socket_bytes = 256 * 1024;
    std::size_t answer_bytes_max = 64u << 20;
};

struct Options {
    std::string host = "127.0.0.1"; // An address, or a name that resolves to one.
    std::uint16_t port = 52415;     // 0: any free one.
    Limits limits;
    std::vector<std::string> allowed_origins; // "https://chat.example.org", or "*" for any.
};

// Seen by tests and the metrics to come.
struct Counters {
    std::uint64_t connections = 0;
    std::uint64_t requests = 0;
    std::uint64_t refused_connections = 0;
    std::uint64_t slow_clients = 0;
    std::uint64_t hang_ups = 0;     // Clients that left before their answer was complete.
    std::uint64_t bad_requests = 0; // Not HTTP.
};

class Server {
public:
    // `backend` outlives the server. The executor runs on one thread.
    Server(boost::asio::any_io_executor executor, Backend& backend, Options options);
    Server(Server const&) = delete;
    Server& operator=(Server const&) = delete;
    // Closes everything. Streams end without a word: call stop() for a clean end.
    ~Server();

    // Listens. Errors: io, when the address is taken or not ours, with what to do.
    [[nodiscard]] Result<> start();

    // No new connections; open streams get an error event and end. `on_stopped` is called, from
    // the executor, when the last connection is closed: within a second. REQUIRES: called once.
    void stop(std::function<void()> on_stopped);

    // The port in use, after start().
    [[nodiscard]] std::uint16_t port() const;
    // "http://127.0.0.1:52415", after start().
    [[nodiscard]] std::string url() const;
    [[nodiscard]] Counters const& counters() const;
    [[nodiscard]] std::size_t connections() const;

private:
    class Impl;
    // Two owners: this object, and each connection's coroutine until it has ended.
    std::shared_ptr<Impl> impl_;
};

} // namespace exo::api::http
