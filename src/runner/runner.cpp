// SPDX-License-Identifier: Apache-2.0
#include "runner/runner.hpp"

#include "base/log.hpp"
#include "engine/engine.hpp"
#include "runner/bench.hpp"
#include "runner/process.hpp"
#include "runner/session.hpp"
#include "runner/settings_flags/settings_flags.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>

namespace exo::runner {
namespace {

struct Arguments {
    int ipc_descriptor = -1;
    std::vector<std::string> probe_paths;
    std::vector<std::string> bench_paths;
    std::uint32_t ranks = 1;
    model::Sharding sharding = model::Sharding::pipeline;
    std::vector<std::uint64_t> shares;
    std::uint32_t context_length = 0;
    std::uint32_t micro_batch = 0;
    std::uint32_t threads = 0;
    model::InstanceSettings settings;
    std::vector<std::string> draft_paths;
    engine::MeasureOptions measure{.prompt_tokens = 512, .answer_tokens = 64, .streams = 1};
    bool no_ranges = false;
    std::string device = "auto";
    std::vector<std::string> places;
};

void define(CLI::App& app, Arguments& arguments) {
    std::map<std::string, model::Sharding> const shardings = {
        {"pipeline", model::Sharding::pipeline},
        {"tensor", model::Sharding::tensor},
    };
    auto* const rank = app.add_option("--ipc-fd", arguments.ipc_descriptor, "the node's socket");
    auto* const probe = app.add_option(
        "--probe", arguments.probe_paths, "say what each rank of this model would need, as JSON"
    );
    auto* const bench = app.add_option(
        "--bench", arguments.bench_paths, "measure this model, all ranks on this machine"
    );
    rank->excludes(probe)->excludes(bench);
    probe->excludes(bench);
    app.add_option("--ranks", arguments.ranks, "how many")->check(CLI::Range(1, 64));
    app.add_option("--sharding", arguments.sharding, "pipeline or tensor")
        ->transform(CLI::Transformer(shardings))
        ->transform(CLI::IsMember({"pipeline", "tensor"}, CLI::ignore_case)) // Runs first.
        ->option_text("MODE");
    app.add_option("--shares", arguments.shares, "by rank: layers, or width")->delimiter(',');
    auto const tokens = CLI::Range(1u, model::context_length_most);
    app.add_option("--context", arguments.context_length, "tokens of cache; 0: the default")
        ->check(CLI::Range(0u, model::context_length_most));
    app.add_option("--micro-batch", arguments.micro_batch, "tokens a graph");
    app.add_option("--threads", arguments.threads, "of each rank; 0: one a physical core")
        ->check(CLI::Range(0u, threads_most));
    add_settings_flags(app, arguments.settings);
    app.add_option("--draft", arguments.draft_paths, "the files of a model that drafts for it");
    app.add_flag("--no-ranges", arguments.no_ranges, "leave the byte ranges out of the probe");
    app.add_option("--device", arguments.device, "auto, cpu, or the name of a GPU");
    app.add_option("--prompt", arguments.measure.prompt_tokens, "tokens to measure with")
        ->check(tokens);
    app.add_option("--generate", arguments.measure.answer_tokens, "tokens to measure with")
        ->check(tokens);
    app.add_option("--streams", arguments.measure.streams, "answers to measure in one batch")
        ->check(CLI::Range(1, 256));
    app.add_option(
        "--at", arguments.places, "NAMESPACE=ADDRESS of each rank: measure over that network"
    );
}

void print_refusal(std::string const& reason) {
    std::printf("%s\n", engine::probe_refusal(reason).c_str());
    std::fflush(stdout);
}

// A model that makes ggml abort is refused like any other.
void refuse_after_abort(std::string const& reason) {
    print_refusal(reason);
    std::_Exit(0);
}

int probe(Arguments const& arguments) {
    set_last_words(refuse_after_abort);
    auto const report = engine::probe(
        {.model_paths = arguments.probe_paths,
         .sharding = arguments.sharding,
         .shares = arguments.shares,
         .context_length = arguments.context_length,
         .micro_batch = arguments.micro_batch,
         .threads = 1,
         .settings = arguments.settings},
        arguments.ranks,
        !arguments.no_ranges
    );
    if (report) {
        std::printf("%s\n", report->c_str());
    } else {
        print_refusal(report.error().text());
    }
    return 0;
}

int bench(Arguments const& arguments) {
    ipc::Start const start{
        .sharding = arguments.sharding,
        .world_size = arguments.ranks,
        .shares = arguments.shares,
        .model_paths = arguments.bench_paths,
        .micro_batch = arguments.micro_batch,
        .threads = arguments.threads,
        .device = arguments.device,
        .settings = arguments.settings,
        .draft_paths = arguments.draft_paths,
    };
    auto const result = [&]() -> Result<void> {
        std::vector<Place> places;
        for (auto const& text : arguments.places) {
            auto place = Place::parse(text);
            if (!place) {
                return place.error();
            }
            places.push_back(std::move(*place));
        }
        return runner::bench(start, arguments.measure, places);
    }();
    if (!result) {
        std::fprintf(stderr, "exo runner: %s\n", result.error().text().c_str());
        return 1;
    }
    return 0;
}

} // namespace

int run(int argc, char** argv) {
    prepare_process();
    CLI::App app("One rank of an instance; what a node starts.", "exo runner");
    Arguments arguments;
    define(app, arguments);
    CLI11_PARSE(app, argc, argv);
    if (arguments.ipc_descriptor >= 0) {
        bool const measured = app.count("--prompt") > 0; // As bench() says it, and no node.
        if (!measured) {
            log::start(log::Level::info, /*file=*/""); // The node keeps our output.
        }
        Session session(
            arguments.ipc_descriptor, measured ? std::optional(arguments.measure) : std::nullopt
        );
        return session.run();
    }
    if (!arguments.probe_paths.empty()) {
        return probe(arguments);
    }
    if (!arguments.bench_paths.empty()) {
        return bench(arguments);
    }
    std::fprintf(stderr, "exo runner: one of --ipc-fd, --probe and --bench is needed\n");
    return 2;
}

} // namespace exo::runner
