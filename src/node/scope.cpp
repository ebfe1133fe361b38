// SPDX-License-Identifier: Apache-2.0
#include "node/scope.hpp"

#include "base/log.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <exception>

namespace exo::node {
namespace {

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);

void report(std::string const& name, std::exception_ptr failure) {
    try {
        if (failure) {
            std::rethrow_exception(failure);
        }
    } catch (boost::system::system_error const& error) {
        // How Asio unwinds a cancelled coroutine.
        if (error.code() != asio::error::operation_aborted) {
            log::error("node", "{} ended: {}", name, error.what());
        }
    } catch (std::exception const& error) {
        log::error("node", "{} ended: {}", name, error.what());
    }
}

} // namespace

Scope::Scope(asio::any_io_executor executor)
    : executor_(std::move(executor))
    , running_(std::make_shared<Running>(executor_)) {}

Scope::~Scope() {
    cancel_all(*running_);
}

std::shared_ptr<Scope::Work> Scope::start(std::string name, asio::awaitable<void> work) {
    auto entry = std::make_shared<Work>();
    auto const place = running_->works.insert(running_->works.end(), entry);
    auto on_end =
        [running = running_, place, entry, name = std::move(name)](std::exception_ptr failure) {
            entry->ended = true;
            running->works.erase(place);
            if (running->works.empty()) {
                running->idle.cancel();
            }
            report(name, failure);
        };
    asio::co_spawn(
        executor_,
        std::move(work),
        asio::bind_cancellation_slot(entry->cancel.slot(), std::move(on_end))
    );
    return entry;
}

void Scope::spawn(std::string name, asio::awaitable<void> work) {
    (void)start(std::move(name), std::move(work));
}

std::unique_ptr<Scope::Handle> Scope::spawn_owned(std::string name, asio::awaitable<void> work) {
    return std::make_unique<Handle>(executor_, start(std::move(name), std::move(work)));
}

void Scope::cancel_all(Running& running) {
    // A copy: cancelling may end a coroutine at once and change the list.
    auto const works = running.works;
    for (auto const& work : works) {
        work->cancel.emit(asio::cancellation_type::terminal);
    }
}

asio::awaitable<void> Scope::stop() {
    auto running = running_;
    while (!running->works.empty()) {
        cancel_all(*running);
        // A cancellation that finds its coroutine between two waits is seen at the next one; ask
        // again rather than trust that there is one.
        running->idle.expires_after(std::chrono::milliseconds(50));
        (void)co_await running->idle.async_wait(as_value);
    }
}

Scope::Handle::~Handle() {
    if (!work_->ended) {
        // Posted, because the owner may be dropping us from within the coroutine itself.
        asio::post(executor_, [work = work_] {
            if (!work->ended) {
                work->cancel.emit(asio::cancellation_type::terminal);
            }
        });
    }
}

void Notify::notify() {
    for (auto* const timer : waiting_) {
        timer->cancel();
    }
}

asio::awaitable<void> Notify::wait(Duration limit) {
    asio::steady_timer timer(co_await asio::this_coro::executor, limit);
    auto const place = waiting_.insert(waiting_.end(), &timer);
    (void)co_await timer.async_wait(as_value);
    waiting_.erase(place);
}

asio::awaitable<void> sleep_for(Duration time) {
    asio::steady_timer timer(co_await asio::this_coro::executor, time);
    co_await timer.async_wait(asio::use_awaitable);
}

} // namespace exo::node
