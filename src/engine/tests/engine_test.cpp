// SPDX-License-Identifier: Apache-2.0
//
// The numbers behind the answers: logits over ranks against those of one rank. Ranks are child
// processes, because ggml's meta device keeps process-wide tables without locks.
#include "collective/local_group.hpp"
#include "collective/tcp/tcp_group.hpp"
#include "engine/batch/decoder.hpp"
#include "engine/load/loader.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <sys/wait.h>
#include <unistd.h>

namespace exo::engine {
namespace {

std::string test_model() {
    auto const* const given = std::getenv("EXO_TEST_MODEL");
    return given != nullptr ? given
                            : EXO_SOURCE_DIR "/.deps/models/SmolLM2-135M-Instruct.Q4_1.gguf";
}

using Program = std::function<Bytes(collective::Group&)>;

Bytes run_as(
    std::uint32_t rank,
    collective::Listener listener,
    std::vector<collective::Endpoint> const& endpoints,
    Program const& program
) {
    collective::Membership const member{.rank = rank, .instance_id = "test"};
    auto group = collective::TcpGroup::connect(std::move(listener), {}, member, endpoints, {});
    return group ? program(**group) : Bytes{};
}

// Runs the program as every rank, each in a process of its own; the result of rank 0.
Bytes run_ranks(std::uint32_t size, Program const& program) {
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
                rest = rest.subspan(std::size_t(write(ends[1], rest.data(), rest.size())));
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
    for (auto const child : children) {
        waitpid(child, nullptr, 0);
    }
    return all;
}

// The logits after each of some tokens: a prompt, then one by one.
Bytes logits_of(
    model::Sharding sharding, std::vector<std::uint64_t> const& shares, collective::Group& group
) {
    auto outline = outline_model(
        {.model_paths = {test_model()},
         .sharding = sharding,
         .ranks = group.size(),
         .shares = shares,
         .context_length = 256,
         .micro_batch = 64,
         .step_tokens_max = 128,
         .parallel = 4},
        &group
    );
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

std::vector<float> logits(
    model::Sharding sharding, std::uint32_t ranks, std::vector<std::uint64_t> const& shares = {}
) {
    auto const bytes = run_ranks(ranks, [&](collective::Group& group) {
        return logits_of(sharding, shares, group);
    });
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
}

// Mean of the squared differences by the mean of the squares.
double nmse(std::vector<float> const& values, std::vector<float> const& reference) {
    double difference = 0;
    double square = 0;
    for (std::size_t i = 0; i < reference.size(); ++i) {
        difference += std::pow(double(values[i]) - double(reference[i]), 2);
        square += std::pow(double(reference[i]), 2);
    }
    return difference / square;
}

class EngineTest : public testing::Test {
protected:
    void SetUp() override {
        if (!std::filesystem::exists(test_model())) {
            GTEST_SKIP() << "no test model at " << test_model();
        }
    }
};

TEST_F(EngineTest, logits_of_a_pipeline_are_those_of_one_rank_bit_by_bit) {
    auto const reference = logits(model::Sharding::pipeline, 1);
    ASSERT_FALSE(reference.empty());
    for (std::uint32_t const ranks : {2u, 4u}) {
        EXPECT_EQ(logits(model::Sharding::pipeline, ranks), reference) << ranks << " ranks";
    }
}

TEST_F(EngineTest, logits_of_tensor_ranks_are_close_to_those_of_one) {
    auto const reference = logits(model::Sharding::pipeline, 1);
    ASSERT_FALSE(reference.empty());
    for (std::uint32_t const ranks : {2u, 3u, 4u}) {
        auto const values = logits(model::Sharding::tensor, ranks);
        ASSERT_EQ(values.size(), reference.size()) << ranks << " ranks";
        EXPECT_LE(nmse(values, reference), 1e-4) << ranks << " ranks";
    }
}

// 9 heads and 3 KV heads over shares of 5 to 1: one rank gets no heads in some layers.
TEST_F(EngineTest, uneven_shares_with_empty_slices_change_nothing) {
    auto const reference = logits(model::Sharding::pipeline, 1);
    auto const values = logits(model::Sharding::tensor, 2, {5, 1});
    ASSERT_EQ(values.size(), reference.size());
    EXPECT_LE(nmse(values, reference), 1e-4);
}

Bytes bytes_of(std::string const& text) {
    Bytes bytes;
    append(bytes, as_bytes(text));
    return bytes;
}

// What rank 0 hears when a disk of rank 1 breaks while it loads.
Bytes reason_at_rank_0(collective::Group& group) {
    LoadOptions options{
        .model_paths = {test_model()},
        .ranks = group.size(),
        .context_length = 256,
        .micro_batch = 64,
        .step_tokens_max = 128,
        .sequences_max = 4
    };
    if (group.rank() == 1) {
        options.read_at = [](int, void*, std::size_t, off_t) {
            errno = EIO;
            return ssize_t{-1};
        };
    }
    auto outline = outline_model(options, &group);
    if (!outline) {
        return bytes_of(outline.error().text());
    }
    auto const loaded = finish_model(std::move(*outline), group, [](std::uint32_t) {});
    if (!loaded) {
        return bytes_of(loaded.error().text());
    }
    auto const ready = group.barrier(); // As warming up would.
    return bytes_of(ready ? "ready" : ready.error().text());
}

TEST_F(EngineTest, when_one_rank_cannot_read_all_end_with_its_reason) {
    auto const bytes = run_ranks(2, reason_at_rank_0);
    auto const text = std::string(as_text(bytes));
    for (std::string const& part : {std::string("rank 1"), std::string("tensor "), test_model()}) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    }
    EXPECT_NE(text.find("Input/output error"), std::string::npos) << text;
}

} // namespace
} // namespace exo::engine
