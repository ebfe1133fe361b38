// SPDX-License-Identifier: Apache-2.0
#include "net/dnssd/driver/service.hpp"

#include "base/log.hpp"
#include "net/dnssd/driver/backend.hpp"
#include "net/interfaces/scan.hpp"
#include "net/mdns/links.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <map>
#include <utility>

namespace exo::net::dnssd {
namespace {

namespace asio = boost::asio;

constexpr Duration retry_max = 5min;

TimePoint now() {
    return std::chrono::steady_clock::now();
}

} // namespace

// Shared with run(). The backend is made and dropped by run() and stop() only, so never while it
// calls.
class Service::Impl {
public:
    Impl(asio::any_io_executor executor, ServiceOptions options, OnFound on_found)
        : executor_(std::move(executor))
        , timer_(executor_)
        , options_(std::move(options))
        , on_found_(std::move(on_found))
        , directory_(options_.self, options_.announcement.network)
        , retry_after_(options_.retry_first) {
        registration_.name = instance_name(options_.name);
        registration_.host = host_label(options_.self);
        registration_.port = options_.port;
    }

    static asio::awaitable<void> run(std::shared_ptr<Impl> self) {
        while (!self->is_stopped_) {
            self->refresh();
            auto const next = self->options_.refresh_interval;
            self->timer_.expires_at(std::max(now(), std::min(now() + next, self->retry_at())));
            co_await self->timer_.async_wait(asio::as_tuple(asio::use_awaitable));
        }
    }

    void stop() {
        is_stopped_ = true;
        on_found_ = nullptr;
        backend_.reset();
        timer_.cancel();
    }

    void set_announcement(Announcement announcement) {
        options_.announcement = std::move(announcement);
        directory_.set_network(options_.announcement.network, now());
        tell();
        timer_.cancel(); // It is published at once.
    }

    [[nodiscard]] std::string const& established_name() const { return established_name_; }

    [[nodiscard]] Directory const& directory() const { return directory_; }

private:
    // When there is something to try again, else far away.
    [[nodiscard]] TimePoint retry_at() const { return backend_ ? TimePoint::max() : retry_at_; }

    void refresh() {
        if (failure_) {
            give_up();
        }
        if (!backend_ && now() >= retry_at_) {
            open();
        }
        if (backend_) {
            look_at_addresses();
            backend_->publish(registration_);
        }
    }

    void open() {
        auto backend = make_backend(executor_, events());
        if (backend) {
            backend_ = std::move(*backend);
        } else {
            failure_ = backend.error();
            give_up();
        }
    }

    // Drops the backend, and says why unless it has said so before.
    void give_up() {
        backend_.reset();
        established_name_.clear();
        directory_.clear(now());
        retry_at_ = now() + retry_after_;
        retry_after_ = std::min(retry_after_ * 2, retry_max);
        auto const text = std::exchange(failure_, std::nullopt)->text();
        if (std::exchange(last_failure_, text) != text) {
            log::warning(
                "dns-sd", "{}; this node is not seen by DNS-SD, which is tried again", text
            );
        }
    }

    // On the links that mDNS of libp2p has too, but loopback: each address on its own.
    void look_at_addresses() {
        auto interfaces = scan_interfaces();
        if (!interfaces) {
            return; // What was there last time is the best guess.
        }
        registration_.addresses.clear();
        std::map<std::uint32_t, std::vector<std::string>> ips;
        auto const links = mdns::choose_links(std::move(*interfaces));
        for (auto const& [id, link] : links.chosen) {
            for (auto const& address : link.addresses) {
                if (link.kind != InterfaceKind::loopback) {
                    registration_.addresses.push_back({link.index, address.text});
                    ips[link.index].push_back(address.text);
                }
            }
        }
        registration_.texts.clear();
        auto announcement = options_.announcement;
        for (auto const& [interface, of_interface] : ips) {
            announcement.addresses =
                announced_addresses(options_.listen, of_interface, options_.self);
            registration_.texts[interface] = encode_txt(announcement);
        }
    }

    BackendEvents events() {
        return {
            .on_appeared =
                [this](std::string const& name, Link const& link) {
                    bool const is_taken = directory_.appeared(name, link, now());
                    if (!is_taken && !std::exchange(has_overflowed_, true)) {
                        log::warning(
                            "dns-sd", "'{}' and maybe others are passed over", instance_name(name)
                        );
                    }
                    tell();
                    return is_taken;
                },
            .on_described =
                [this](std::string const& name, std::string const& interface, auto const& texts) {
                    directory_.described(name, interface, texts, now());
                    tell();
                },
            .on_vanished = [this](
                               std::string const& name, Link const& link
                           ) { return directory_.vanished(name, link, now()); },
            .on_established =
                [this](std::string const& name) {
                    if (std::exchange(established_name_, name) != name) {
                        log::info("dns-sd", "announced as '{}'", name);
                    }
                    retry_after_ = options_.retry_first;
                    last_failure_.clear();
                },
            .on_failed =
                [this](Error const& why) {
                    failure_ = why;
                    timer_.cancel();
                },
        };
    }

    void tell() {
        while (auto const found = directory_.next_event()) {
            if (on_found_) {
                on_found_(*found);
            }
        }
    }

    asio::any_io_executor executor_;
    asio::steady_timer timer_; // Of run(): the next refresh.
    ServiceOptions options_;
    OnFound on_found_;
    Directory directory_;
    Registration registration_;
    std::unique_ptr<Backend> backend_;
    std::string established_name_;
    std::optional<Error> failure_; // Not yet acted upon.
    std::string last_failure_;     // Logged.
    TimePoint retry_at_;
    Duration retry_after_;
    bool has_overflowed_ = false; // Logged.
    bool is_stopped_ = false;
};

Service::Service(asio::any_io_executor executor, ServiceOptions options, OnFound on_found)
    : impl_(std::make_shared<Impl>(std::move(executor), std::move(options), std::move(on_found))) {}

Service::~Service() {
    impl_->stop();
}

asio::awaitable<void> Service::run() {
    return Impl::run(impl_);
}

void Service::stop() {
    impl_->stop();
}

void Service::set_announcement(Announcement announcement) {
    impl_->set_announcement(std::move(announcement));
}

std::string const& Service::established_name() const {
    return impl_->established_name();
}

std::vector<Found> Service::of_our_network() const {
    return impl_->directory().of_our_network();
}

std::vector<AnnouncedFacts> Service::facts() const {
    return impl_->directory().facts(now());
}

} // namespace exo::net::dnssd
