// SPDX-License-Identifier: Apache-2.0
#include "api/http/server.hpp"

#include "api/http/connection.hpp"
#include "base/assert.hpp"
#include "base/log.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <exception>
#include <set>
#include <utility>

namespace exo::api::http {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using ErrorCode = boost::system::error_code;

namespace {

constexpr std::chrono::milliseconds stop_time{700}; // Within the second that stop() has.
constexpr std::chrono::milliseconds accept_pause_time{100
}; // Out of descriptors: others must close.
constexpr std::size_t refusals_max = 64; // At once; more are just closed.

Result<Tcp::endpoint> resolve(asio::any_io_executor const& executor, Options const& options) {
    ErrorCode error;
    auto const address = asio::ip::make_address(options.host, error);
    if (!error) {
        return Tcp::endpoint(address, options.port);
    }
    Tcp::resolver resolver(executor);
    auto const found =
        resolver.resolve(options.host, std::to_string(options.port), Tcp::resolver::passive, error);
    if (error || found.empty()) {
        return Error(
            Errc::io,
            fmt::format("the API cannot listen at '{}': no such host or address", options.host)
        );
    }
    return found.begin()->endpoint();
}

std::string text_of(Tcp::endpoint const& endpoint) {
    auto const address = endpoint.address().to_string();
    return endpoint.address().is_v6() ? fmt::format("[{}]:{}", address, endpoint.port())
                                      : fmt::format("{}:{}", address, endpoint.port());
}

Error listen_error(Tcp::endpoint const& endpoint, ErrorCode error) {
    std::string remedy;
    if (error == asio::error::address_in_use) {
        remedy = ": another program (perhaps exo) has that port; stop it, or choose another port "
                 "with --api-port (0: any free one)";
    } else if (error == boost::system::errc::address_not_available) {
        remedy = ": this machine has no such address; choose one of its own with --api-host "
                 "(0.0.0.0: all)";
    } else if (error == asio::error::access_denied) {
        remedy = ": ports below 1024 need a privilege; choose another with --api-port";
    }
    return Error(
        Errc::io,
        fmt::format("the API cannot listen at {}: {}{}", text_of(endpoint), error.message(), remedy)
    );
}

} // namespace

class Server::Impl : public std::enable_shared_from_this<Server::Impl> {
public:
    Impl(asio::any_io_executor executor, Backend& backend, Options options)
        : context_{.backend = backend, .options = std::move(options)}
        , executor_(executor)
        , acceptor_(executor)
        , timer_(executor) {}

    Result<> start() {
        auto const resolved = resolve(executor_, context_.options);
        if (!resolved) {
            return resolved.error();
        }
        ErrorCode error;
        open(*resolved, error);
        if (error) {
            ErrorCode ignored;
            acceptor_.close(ignored);
            return listen_error(*resolved, error);
        }
        endpoint_ = acceptor_.local_endpoint(error);
        accepting_ = true;
        auto on_end = [self = shared_from_this()](std::exception_ptr failure) {
            self->accepting_ = false;
            self->ended(failure);
        };
        asio::co_spawn(executor_, accept_all(), std::move(on_end));
        return {};
    }

    void stop(std::function<void()> on_stopped) {
        EXO_ASSERT(!on_stopped_);
        on_stopped_ = std::move(on_stopped);
        close_acceptor();
        for (auto const& connection : std::set(connections_)) {
            connection->stop();
        }
        timer_.expires_after(stop_time);
        timer_.async_wait([self = shared_from_this()](ErrorCode error) {
            if (!error) {
                self->abort_all();
            }
        });
        report_when_stopped();
    }

    // The server object goes away: nothing may use the backend from here on.
    void abandon() {
        on_stopped_ = nullptr;
        close_acceptor();
        abort_all();
    }

    [[nodiscard]] Tcp::endpoint const& endpoint() const { return endpoint_; }

    [[nodiscard]] Counters const& counters() const { return context_.counters; }

    [[nodiscard]] std::size_t connections() const { return connections_.size(); }

private:
    void open(Tcp::endpoint const& endpoint, ErrorCode& error) {
        acceptor_.open(endpoint.protocol(), error);
        if (!error) {
            // A restart must not wait for the last run's connections to be forgotten.
            acceptor_.set_option(Tcp::acceptor::reuse_address(true), error);
        }
        if (!error) {
            acceptor_.bind(endpoint, error);
        }
        if (!error) {
            acceptor_.listen(asio::socket_base::max_listen_connections, error);
        }
    }

    asio::awaitable<void> accept_all() {
        bool warned = false; // Once for as long as it lasts.
        while (!context_.stopping) {
            auto [error, socket] = co_await acceptor_.async_accept(as_value);
            if (!error) {
                warned = false;
                admit(std::move(socket));
            } else if (!context_.stopping) {
                if (!std::exchange(warned, true)) {
                    log::warning("api", "cannot accept a connection: {}", error.message());
                }
                timer_.expires_after(accept_pause_time);
                co_await timer_.async_wait(as_value);
            }
        }
    }

    void admit(Tcp::socket socket) {
        bool const full = connections_.size() >= context_.options.limits.connections_max;
        if (full) {
            ++context_.counters.refused_connections;
            if (refusals_.size() >= refusals_max) {
                return; // Closes it.
            }
        }
        ++context_.counters.connections;
        auto const connection = std::make_shared<Connection>(context_, std::move(socket));
        (full ? refusals_ : connections_).insert(connection);
        auto on_end = [self = shared_from_this(), connection](std::exception_ptr failure) {
            self->connections_.erase(connection);
            self->refusals_.erase(connection);
            self->ended(failure);
        };
        asio::co_spawn(
            executor_, full ? connection->refuse() : connection->run(), std::move(on_end)
        );
    }

    void ended(std::exception_ptr const& failure) {
        if (failure) {
            // Only memory can run out here: errors are values. The others go on.
            log::error("api", "a connection ended by an exception");
        }
        report_when_stopped();
    }

    void close_acceptor() {
        context_.stopping = true;
        ErrorCode ignored;
        acceptor_.close(ignored);
        timer_.cancel();
    }

    void abort_all() {
        for (auto const* all : {&connections_, &refusals_}) {
            for (auto const& connection : std::set(*all)) {
                connection->abort();
            }
        }
    }

    void report_when_stopped() {
        if (!on_stopped_ || accepting_ || !connections_.empty() || !refusals_.empty()) {
            return;
        }
        timer_.cancel();
        asio::post(executor_, std::exchange(on_stopped_, nullptr));
    }

    Context context_;
    asio::any_io_executor executor_;
    Tcp::acceptor acceptor_;
    Tcp::endpoint endpoint_;
    asio::steady_timer timer_;
    std::set<std::shared_ptr<Connection>> connections_;
    std::set<std::shared_ptr<Connection>> refusals_; // Being told that there are too many.
    std::function<void()> on_stopped_;
    bool accepting_ = false;
};

Server::Server(asio::any_io_executor executor, Backend& backend, Options options)
    : impl_(std::make_shared<Impl>(std::move(executor), backend, std::move(options))) {}

Server::~Server() {
    impl_->abandon();
}

Result<> Server::start() {
    return impl_->start();
}

void Server::stop(std::function<void()> on_stopped) {
    impl_->stop(std::move(on_stopped));
}

std::uint16_t Server::port() const {
    return impl_->endpoint().port();
}

std::string Server::url() const {
    auto endpoint = impl_->endpoint();
    if (endpoint.address().is_unspecified()) {
        endpoint.address(asio::ip::address_v4::loopback());
    }
    return "http://" + text_of(endpoint);
}

Counters const& Server::counters() const {
    return impl_->counters();
}

std::size_t Server::connections() const {
    return impl_->connections();
}

} // namespace exo::api::http
