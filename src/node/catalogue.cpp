// SPDX-License-Identifier: Apache-2.0
#include "node/catalogue.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>

namespace exo::node {
namespace {

asio::awaitable<std::vector<storage::LocalModel>>
scan(std::shared_ptr<storage::ModelLibrary> library) {
    co_return library->scan().models;
}

} // namespace

Catalogue::Catalogue(storage::Paths const& paths)
    : library_(std::make_shared<storage::ModelLibrary>(paths.all_models()))
    , models_(library_->scan().models) {}

asio::awaitable<void> Catalogue::run(Notify& changed) {
    while (true) {
        co_await sleep_for(scan_interval);
        auto found = co_await asio::co_spawn(disk_, scan(library_), asio::use_awaitable);
        if (found != models_) {
            models_ = std::move(found);
            changed.notify();
        }
    }
}

storage::LocalModel const* Catalogue::find(model::ModelId const& id) const {
    auto const found = std::ranges::find(models_, id, [](storage::LocalModel const& local) {
        return local.card.model_id;
    });
    return found == models_.end() ? nullptr : &*found;
}

} // namespace exo::node
