// SPDX-License-Identifier: Apache-2.0
#include "node/requests/choose_service.hpp"

#include "core/cluster/choose.hpp"
#include "model/json.hpp"
#include "net/host/async.hpp"
#include "node/json.hpp"

namespace exo::node {
namespace {

using net::now;

} // namespace

ChooseService::ChooseService(net::Host& host, ClusterDriver& cluster)
    : cluster_(cluster) {
    host.handle(choose_protocol, [this](std::unique_ptr<net::Stream> stream) {
        return serve(std::move(stream));
    });
}

Result<model::InstanceId> ChooseService::choose(model::ModelId const& model) {
    while (!recent_.empty() && now() - recent_.front().time > remembered) {
        recent_.pop_front();
    }
    cluster::InFlight in_flight = cluster_.loads();
    for (auto const& choice : recent_) {
        ++in_flight[choice.instance];
    }
    auto chosen = cluster::choose_instance(cluster_.state(), model, in_flight, cluster_.silent());
    if (chosen && recent_.size() < remembered_max) {
        recent_.push_back(Choice{*chosen, now()});
    }
    return chosen;
}

asio::awaitable<void> ChooseService::serve(std::unique_ptr<net::Stream> stream) {
    auto const message = co_await net::read_message(*stream, small_message_bytes_max);
    if (!message) {
        co_return;
    }
    auto const question = model::from_msgpack<ChooseInstance>(*message);
    if (!question) {
        co_return;
    }
    ChosenInstance answer;
    if (cluster_.master() == cluster_.self()) {
        if (auto const chosen = choose(question->model)) {
            answer.instance_id = *chosen;
        }
    }
    auto const bytes = model::to_msgpack(answer);
    (void)co_await net::write_message(*stream, bytes);
    stream->close_write();
}

} // namespace exo::node
