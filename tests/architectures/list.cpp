// SPDX-License-Identifier: Apache-2.0
#include "list.hpp"

#include <fmt/core.h>

#include <cmath>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <vector>

namespace exo::architectures {
namespace {

constexpr char heading[] = "architecture, variant\tpipeline\ttensor";
constexpr int digits_max = 16; // Below that a difference is none.

std::string architecture_of(std::string const& row) {
    return row.substr(0, row.find(','));
}

// In some variant.
std::set<std::string> architectures_that_run(List const& list, std::string Results::* mode) {
    std::set<std::string> names;
    for (auto const& [row, results] : list) {
        if (runs(results.*mode)) {
            names.insert(architecture_of(row));
        }
    }
    return names;
}

// Architectures by the reason for which they are refused; with the variant, if another one runs.
std::string table_of_refusals(List const& list, std::string Results::* mode) {
    auto const running = architectures_that_run(list, mode);
    std::map<std::string, std::set<std::string>> by_reason;
    for (auto const& [row, results] : list) {
        if (!runs(results.*mode)) {
            auto const name = architecture_of(row);
            auto const variant = row.substr(name.size() + 2);
            by_reason[results.*mode].insert(
                running.contains(name) ? fmt::format("{} ({})", name, variant) : name
            );
        }
    }
    std::string table = "| reason | architectures |\n|---|---|\n";
    for (auto const& [reason, names] : by_reason) {
        std::string joined;
        for (auto const& name : names) {
            joined += (joined.empty() ? "" : ", ") + name;
        }
        auto const text = std::regex_replace(reason.substr(4), std::regex("\\|"), "\\|");
        table += fmt::format("| {} | {} |\n", text, joined);
    }
    return table;
}

std::string names_that_run(List const& list, std::string Results::* mode) {
    std::string text;
    std::size_t column = 0;
    for (auto const& name : architectures_that_run(list, mode)) {
        auto const word = text.empty() ? name : ", " + name;
        column += word.size();
        if (column > 100) {
            text += ",\n" + name;
            column = name.size();
        } else {
            text += word;
        }
    }
    return text + ".\n";
}

} // namespace

Result<List> read_list(std::string const& path) {
    std::ifstream file(path);
    std::string line;
    if (!std::getline(file, line) || line != heading) {
        return Error(Errc::corrupt, path + " does not begin with its heading");
    }
    List list;
    while (std::getline(file, line)) {
        std::istringstream fields(line);
        std::string row;
        Results results;
        if (!std::getline(fields, row, '\t') || !std::getline(fields, results.pipeline, '\t') ||
            !std::getline(fields, results.tensor, '\t')) {
            return Error(Errc::corrupt, fmt::format("{}: no list row: {}", path, line));
        }
        list[row] = results;
    }
    return list;
}

std::string to_tsv(List const& list) {
    std::string text = std::string(heading) + '\n';
    for (auto const& [row, results] : list) {
        text += fmt::format("{}\t{}\t{}\n", row, results.pipeline, results.tensor);
    }
    return text;
}

std::string to_page(List const& list) {
    std::set<std::string> all;
    for (auto const& [row, results] : list) {
        all.insert(architecture_of(row));
    }
    auto const pipeline = count_running(list, &Results::pipeline);
    auto const tensor = count_running(list, &Results::tensor);
    return fmt::format(
        "# Architectures\n\n"
        "This page is made from `tests/architectures/list.tsv` by `architectures_test`, which "
        "builds a small random\n"
        "model of every architecture that llama.cpp names and compares logits: llama.cpp alone, "
        "and two ranks of ours\n"
        "as processes. \"Runs\" means a normalised mean squared error below 1e-4. Of {} "
        "architectures, **{} run in pipeline\n"
        "mode and {} in tensor mode**. What does not run is refused by `exo runner --probe` "
        "before it is placed, with\n"
        "the reason below.\n\n"
        "## Pipeline: {}\n\n{}\n### Refused\n\n{}\n"
        "## Tensor: {}\n\n{}\n### Refused\n\n{}",
        all.size(),
        pipeline,
        tensor,
        pipeline,
        names_that_run(list, &Results::pipeline),
        table_of_refusals(list, &Results::pipeline),
        tensor,
        names_that_run(list, &Results::tensor),
        table_of_refusals(list, &Results::tensor)
    );
}

std::string result_of(double nmse) {
    if (!(nmse < nmse_max)) {
        return "no: the logits are wrong";
    }
    auto const power = nmse > 0 ? static_cast<int>(std::ceil(std::log10(nmse))) : -digits_max;
    return power <= -digits_max ? "0" : fmt::format("1e{}", power);
}

std::string refusal_of(std::string reason) {
    for (auto const& [pattern, replacement] : {
             std::pair("[^ ]*/([^/ ]+\\.(cpp|c|h|hpp):)", "$1"),
             std::pair("llama_model_load: error loading model: ", ""),
             std::pair("; llama_model_load_from_file_impl: failed to load model", ""),
             std::pair("[\t\n]+", " "),
         }) {
        reason = std::regex_replace(reason, std::regex(pattern), replacement);
    }
    return "no: " + reason;
}

bool runs(std::string const& result) {
    return !result.starts_with("no: ");
}

std::size_t count_running(List const& list, std::string Results::* mode) {
    return architectures_that_run(list, mode).size();
}

} // namespace exo::architectures
