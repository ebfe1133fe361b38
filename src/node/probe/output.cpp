// SPDX-License-Identifier: Apache-2.0
#include "node/probe/output.hpp"

#include "base/text.hpp"
#include "model/json.hpp"
#include "node/json.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace exo::node {

Result<model::ModelCut> read_probe_output(std::string_view output, Way const& way) {
    std::string verdict;
    for (auto& line : split(output, '\n')) {
        if (line.starts_with("{")) {
            verdict = std::move(line);
        }
    }
    if (verdict.empty()) {
        return Error(Errc::protocol, "the probe of the model said nothing");
    }
    auto const json = model::parse_json(verdict);
    if (!json) {
        return Error(Errc::protocol, "the probe of the model said garbage: " + json.error().text());
    }
    auto report = model::from_json<ProbeOutput>(*json);
    if (!report) {
        return Error(
            Errc::protocol, "the probe of the model said garbage: " + report.error().text()
        );
    }
    model::ModelCut cut{.sharding = way.sharding, .ranks = way.ranks};
    if (!report->ok) {
        cut.refusal = utf8_prefix(report->reason, refusal_bytes_max);
        if (cut.refusal.empty()) {
            cut.refusal = "no reason was given";
        }
        return cut;
    }
    if (report->ranks.size() != way.ranks) {
        return Error(
            Errc::protocol,
            fmt::format(
                "the probe of the model has figures of {} ranks, not of {}",
                report->ranks.size(),
                way.ranks
            )
        );
    }
    cut.layer_bytes = report->layer_bytes;
    cut.needs = std::move(report->ranks);
    return cut;
}

} // namespace exo::node
