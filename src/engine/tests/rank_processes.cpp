// SPDX-License-Identifier: Apache-2.0
#include "engine/tests/rank_processes.hpp"

#include "collective/local_group.hpp"
#include "collective/tcp/tcp_group.hpp"
#include "engine/batch/decoder.hpp"
#include "engine/tests/test_model.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <sys/wait.h>
#include <unistd.h>

namespace exo::engine {
namespace {

Bytes run_as(
    std::uint32_t rank,
    collective::Listener listener,
    std::vector<collective::Endpoint> const& endpoints,
    RankProgram const& program
) {
    collective::Membership const member{.rank = rank, .instance_id = "test"};
    auto group = collective::TcpGroup::connect(std::move(listener), {}, member, endpoints, {});
    return group ? program(**group) : Bytes{};
}

} // namespace

Bytes run_ranks(std::uint32_t size, RankProgram const& program) {
    std::vector<collective::Listener> listeners;
    std::vector<collective::Endpoint> endpoints;
    for (std::uint32_t rank = 0; rank < size; ++rank) {
        listeners.push_back(*collective::Listener::open());
        endpoints.push_back({.addresses = {"127.0.0.1"}, .port = listeners.back().port()});
    }
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    std::vector<pid_t> children;
    for (std::uint32_t rank = 0; rank < size; ++rank) {
        auto const child = fork();
        if (child == 0) {
            collective::LocalGroup alone;
            auto const result = size == 1
                                    ? program(alone)
                                    : run_as(rank, std::move(listeners[rank]), endpoints, program);
            auto rest = BytesView(result);
            while (rank == 0 && !rest.empty()) {
                auto const written = write(ends[1], rest.data(), rest.size());
                if (written < 0) {
                    _exit(1);
                }
                rest = rest.subspan(std::size_t(written));
            }
            _exit(0);
        }
        children.push_back(child);
    }
    close(ends[1]);
    Bytes all;
    Bytes part(1 << 16);
    for (ssize_t got = 0; (got = read(ends[0], part.data(), part.size())) > 0;) {
        append(all, BytesView(part).first(std::size_t(got)));
    }
    close(ends[0]);
    for (std::size_t rank = 0; rank < children.size(); ++rank) {
        int status = 0;
        waitpid(children[rank], &status, 0);
        EXPECT_EQ(status, 0) << "of rank " << rank;
    }
    return all;
}

Bytes logits_of(LoadOptions options, collective::Group& group) {
    options.model_paths = {test_model()};
    options.ranks = group.size();
    options.context_length = 256;
    options.micro_batch = 64;
    options.step_tokens_max = 128;
    options.parallel = 4;
    auto outline = outline_model(options, &group);
    if (!outline) {
        std::fprintf(stderr, "%s\n", outline.error().text().c_str());
        return {};
    }
    auto loaded = finish_model(std::move(*outline), group, [](std::uint32_t) {});
    if (!loaded) {
        std::fprintf(stderr, "%s\n", loaded.error().text().c_str());
        return {};
    }
    auto const vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(loaded->model.get()));
    Decoder decoder(
        *loaded,
        {.tokens_max = 128,
         .micro_batch = 64,
         .sequences_max = 4,
         .vocabulary_size = vocabulary,
         .context_length = 256}
    );
    Bytes all;
    std::int32_t position = 0;
    for (std::int32_t const count : {100, 1, 1, 1}) {
        StepPlan plan;
        plan.number = decoder.next_number();
        for (std::int32_t i = 0; i < count; ++i, ++position) {
            plan.tokens.push_back({
                .token = 100 + position * 37 % 2000,
                .position = position,
                .output = i + 1 == count,
            });
        }
        if (auto done = decoder.execute(plan); !done) {
            std::fprintf(stderr, "%s\n", done.error().text().c_str());
            return {};
        }
        if (group.rank() == 0) {
            auto const logits = decoder.logits(plan.tokens.size() - 1);
            append(
                all, {reinterpret_cast<std::uint8_t const*>(logits.data()), logits.size_bytes()}
            );
        }
    }
    return group.barrier() ? all : Bytes{};
}

std::vector<float> logits(std::uint32_t ranks, RankProgram const& program) {
    auto const bytes = run_ranks(ranks, program);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
}

} // namespace exo::engine
