// SPDX-License-Identifier: Apache-2.0
#include "node/probe/probe_service.hpp"

#include "base/log.hpp"
#include "core/placement/placement.hpp"
#include "model/json.hpp"
#include "node/direct.hpp"
#include "node/json.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace exo::node {
namespace {

// Stages of a longer pipeline compute the same graphs as those of this one (placement/cuts.hpp).
constexpr std::uint32_t pipeline_ranks_tried = 4;

// As many ways, and ranks in each, as ways_to_try() has.
bool is_reasonable(ProbeModel const& question) {
    return question.ways.size() <= placement::tensor_ranks_max &&
           std::ranges::all_of(question.ways, [](Way const& way) {
               return way.ranks > 0 && way.ranks <= placement::tensor_ranks_max;
           });
}

Result<void> check_answer(ProbedModel const& answer, std::vector<Way> const& ways) {
    if (!answer.error.empty()) {
        return Error(Errc::unavailable, answer.error);
    }
    bool const all = std::ranges::equal(answer.cuts, ways, {}, [](model::ModelCut const& cut) {
        return Way{.sharding = cut.sharding, .ranks = cut.ranks};
    });
    return all ? Result<void>() : Error(Errc::protocol, "it answered another question");
}

} // namespace

std::vector<Way>
ways_to_try(model::ModelCard const& card, model::Sharding sharding, std::size_t nodes) {
    std::vector<Way> ways{{.sharding = model::Sharding::pipeline, .ranks = 1}};
    auto const most = sharding == model::Sharding::tensor
                          ? placement::tensor_ranks_max
                          : std::min(pipeline_ranks_tried, card.n_layers);
    for (std::uint32_t ranks = 2; ranks <= std::min<std::size_t>(nodes, most); ++ranks) {
        ways.push_back({.sharding = sharding, .ranks = ranks});
    }
    return ways;
}

std::vector<model::NodeId> nodes_with(
    model::Observations const& observations, model::NodeId const& self, model::ModelId const& model
) {
    std::vector<model::NodeId> nodes;
    for (auto const& [id, info] : observations) {
        if (std::ranges::count(info.models, model, &model::ModelCard::model_id) > 0) {
            nodes.insert(id == self ? nodes.begin() : nodes.end(), id);
        }
    }
    return nodes;
}

ProbeService::ProbeService(net::Host& host, Catalogue const& catalogue, LocalProbeOptions options)
    : host_(host)
    , catalogue_(catalogue)
    , local_(std::move(options)) {
    host.handle(probe_protocol, [this](std::unique_ptr<net::Stream> stream) {
        return serve(std::move(stream));
    });
}

asio::awaitable<Result<model::ModelCard>> ProbeService::judge(
    model::ModelCard card, model::Sharding sharding, std::vector<model::NodeId> holders
) {
    auto const ways = ways_to_try(card, sharding, holders.size());
    model::NodeId const self(host_.id().text());
    Error last(Errc::unavailable, "no node has its file now");
    holders.resize(std::min(holders.size(), nodes_asked_max));
    for (auto const& holder : holders) {
        auto asking =
            holder == self ? ask_here(card.model_id, ways) : ask_there(holder, card.model_id, ways);
        auto cuts = co_await std::move(asking);
        if (cuts) {
            card.cuts = std::move(*cuts);
            co_return card;
        }
        last = cuts.error();
        log::warning(
            "probe",
            "{} cannot be tried on {}: {}",
            card.model_id.value(),
            holder.value(),
            last.text()
        );
    }
    if (sharding == model::Sharding::pipeline) {
        co_return card;
    }
    co_return Error(
        Errc::unavailable,
        fmt::format(
            "whether {} can be cut by tensor could not be tried: {}",
            card.model_id.value(),
            last.text()
        )
    );
}

asio::awaitable<Result<std::vector<model::ModelCut>>>
ProbeService::ask_here(model::ModelId model, std::vector<Way> ways) {
    std::vector<model::ModelCut> cuts;
    for (auto const& way : ways) {
        auto const* const local = catalogue_.find(model); // Anew: the files may change meanwhile.
        if (local == nullptr) {
            co_return Error(Errc::not_found, "the model is not on this node's disk");
        }
        auto cut = co_await local_.ask(*local, way);
        if (!cut) {
            co_return cut.error();
        }
        cuts.push_back(std::move(*cut));
    }
    co_return cuts;
}

asio::awaitable<Result<std::vector<model::ModelCut>>>
ProbeService::ask_there(model::NodeId node, model::ModelId model, std::vector<Way> ways) {
    auto const peer = net::PeerId::parse(node.value());
    if (!peer) {
        co_return peer.error();
    }
    ProbeModel question;
    question.model = std::move(model);
    question.ways = ways;
    auto bytes = model::to_msgpack(question);
    auto const answer = co_await node::ask(
        host_, *peer, probe_protocol, std::move(bytes), probe_answer_bytes_max, answer_limit
    );
    if (!answer) {
        co_return answer.error();
    }
    auto probed = model::from_msgpack<ProbedModel>(*answer);
    if (!probed) {
        co_return probed.error();
    }
    if (auto const checked = check_answer(*probed, ways); !checked) {
        co_return checked.error();
    }
    co_return std::move(probed->cuts);
}

asio::awaitable<void> ProbeService::serve(std::unique_ptr<net::Stream> stream) {
    auto const message = co_await net::read_message(*stream, small_message_bytes_max);
    if (!message) {
        co_return;
    }
    auto const question = model::from_msgpack<ProbeModel>(*message);
    if (!question || !is_reasonable(*question)) {
        co_return;
    }
    auto cuts = co_await ask_here(question->model, question->ways);
    ProbedModel answer;
    if (cuts) {
        answer.cuts = std::move(*cuts);
    } else {
        answer.error = cuts.error().text();
    }
    auto const bytes = model::to_msgpack(answer);
    (void)co_await net::write_message(*stream, bytes);
    stream->close_write();
}

} // namespace exo::node
