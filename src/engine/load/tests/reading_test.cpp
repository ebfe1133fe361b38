// SPDX-License-Identifier: Apache-2.0
//
// What loading reads, and what it does when reading fails. Each rank of a group is made alone, by
// a Group that agrees to everything: loading needs the others only to compare.
#include "engine/load/loader.hpp"
#include "engine/load/probe.hpp"
#include "engine/load/tests/gguf_files.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <semaphore>
#include <sys/stat.h>

namespace exo::engine {
namespace {

using model::Sharding;

class LoneRank final : public collective::Group {
public:
    LoneRank(std::uint32_t rank, std::uint32_t size)
        : rank_(rank)
        , size_(size) {}

    [[nodiscard]] std::uint32_t rank() const override { return rank_; }

    [[nodiscard]] std::uint32_t size() const override { return size_; }

    Result<void> send(std::uint32_t, BytesView) override { return {}; }

    Result<void> receive(std::uint32_t, std::span<std::uint8_t>) override { return {}; }

    Result<Bytes> receive_message(std::uint32_t) override { return Bytes{}; }

    Result<void> broadcast(std::uint32_t, std::span<std::uint8_t>) override { return {}; }

    Result<void> all_reduce(std::span<float>) override { return {}; }

    Result<void> all_gather(BytesView part, std::span<std::uint8_t> all) override {
        for (std::size_t at = 0; at < all.size(); at += part.size()) {
            std::ranges::copy(part, all.begin() + static_cast<std::ptrdiff_t>(at));
        }
        return {};
    }

    Result<void> barrier() override { return {}; }

    void fail(Error error) override { error_ = std::move(error); }

    [[nodiscard]] Result<void> health() const override {
        return error_ ? Result<void>(*error_) : Result<void>();
    }

private:
    std::uint32_t rank_;
    std::uint32_t size_;
    std::optional<Error> error_;
};

LoadOptions options_for(
    std::vector<std::string> paths, Sharding sharding, std::uint32_t ranks, ReadAt read_at = {}
) {
    LoadOptions options;
    options.model_paths = std::move(paths);
    options.sharding = sharding;
    options.ranks = ranks;
    options.context_length = 256;
    options.micro_batch = 16;
    options.step_tokens_max = 64;
    options.parallel = 2;
    options.read_at = std::move(read_at);
    return options;
}

Result<LoadedModel> load(LoadOptions const& options, collective::Group& group) {
    auto outline = outline_model(options, &group);
    if (!outline) {
        return outline.error();
    }
    return finish_model(std::move(*outline), group, [](std::uint32_t) {});
}

// pread(2), counted.
class Counter {
public:
    ReadAt read_at() {
        return [this](int descriptor, void* into, std::size_t bytes, off_t offset) {
            auto const got = pread(descriptor, into, bytes, offset);
            bytes_ += static_cast<std::uint64_t>(std::max<ssize_t>(got, 0));
            ++calls_;
            return got;
        };
    }

    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

    [[nodiscard]] std::uint64_t calls() const { return calls_; }

private:
    std::atomic<std::uint64_t> bytes_{0};
    std::atomic<std::uint64_t> calls_{0};
};

// All bytes that this process has read, of anything.
std::uint64_t bytes_of_process() {
    std::ifstream io("/proc/self/io");
    std::string key;
    std::uint64_t value = 0;
    while (io >> key >> value) {
        if (key == "rchar:") {
            return value;
        }
    }
    return 0;
}

struct Sizes {
    std::uint64_t all = 0;
    std::uint64_t embedding = 0;
    std::uint64_t norms = 0;
};

Sizes sizes_of(std::string const& path) {
    auto const files = ModelFiles::open({path});
    Sizes sizes;
    for (auto const& [name, entry] : (*files)->tensors()) {
        sizes.all += entry.bytes;
        sizes.embedding += name == "token_embd.weight" ? entry.bytes : 0;
        sizes.norms += name.find("norm") != std::string::npos ? entry.bytes : 0;
    }
    return sizes;
}

// Of the tensors alone: the header is read by llama.cpp, too.
std::uint64_t
bytes_read_by(std::string const& path, Sharding sharding, std::uint32_t rank, std::uint32_t ranks) {
    Counter counter;
    LoneRank group(rank, ranks);
    auto outline = outline_model(options_for({path}, sharding, ranks, counter.read_at()), &group);
    EXPECT_TRUE(outline) << outline.error().text();
    EXPECT_EQ(counter.bytes(), 0u) << "weights were read before all ranks agreed";
    auto const before = bytes_of_process();
    auto const loaded = finish_model(std::move(*outline), group, [](std::uint32_t) {});
    EXPECT_TRUE(loaded) << loaded.error().text();
    auto const read = bytes_of_process() - before;
    EXPECT_GE(read, counter.bytes());
    EXPECT_LE(read, counter.bytes() + (64u << 10)) << "something else reads the model";
    return counter.bytes();
}

std::uint64_t bytes_of(std::vector<FileRange> const& ranges) {
    std::uint64_t sum = 0;
    for (auto const& range : ranges) {
        sum += range.bytes;
    }
    return sum;
}

class Slices : public testing::TestWithParam<bool> {
protected:
    Slices() {
        ModelShape shape;
        shape.tied = GetParam();
        ModelWriter(shape).write(path_);
    }

    std::uint64_t read_by_all(Sharding sharding, std::uint32_t ranks) {
        auto const report = probe_model(options_for({path_}, sharding, ranks));
        EXPECT_TRUE(report) << report.error().text();
        std::uint64_t sum = 0;
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            auto const bytes = bytes_read_by(path_, sharding, rank, ranks);
            auto const& need = report->ranks[rank];
            EXPECT_LE(bytes, bytes_of(need.ranges)) << "the probe does not know what is read";
            EXPECT_LE(bytes, need.weight_bytes);
            sum += bytes;
        }
        return sum;
    }

    TemporaryFolder folder_;
    std::string path_ = folder_ / "model.gguf";
};

TEST_P(Slices, one_rank_reads_the_file_once) {
    EXPECT_EQ(read_by_all(Sharding::pipeline, 1), sizes_of(path_).all);
}

TEST_P(Slices, ranks_of_a_pipeline_read_the_file_once_among_them) {
    auto const sizes = sizes_of(path_);
    // A tied embedding is at both ends.
    auto const twice = GetParam() ? sizes.embedding : 0;
    for (std::uint32_t const ranks : {2u, 3u, 4u}) {
        EXPECT_EQ(read_by_all(Sharding::pipeline, ranks), sizes.all + twice) << ranks;
    }
}

TEST_P(Slices, tensor_ranks_read_more_than_once_only_what_each_of_them_holds) {
    auto const sizes = sizes_of(path_);
    auto const each = sizes.embedding + sizes.norms;
    for (std::uint32_t const ranks : {2u, 3u, 4u}) {
        EXPECT_EQ(read_by_all(Sharding::tensor, ranks), sizes.all + (ranks - 1) * each) << ranks;
    }
}

TEST_P(Slices, only_the_rank_with_the_first_layers_reads_the_embedding_for_the_host) {
    auto const sizes = sizes_of(path_);
    auto const first = bytes_read_by(path_, Sharding::pipeline, 1, 3);
    auto const middle = bytes_read_by(path_, Sharding::pipeline, 2, 3);
    EXPECT_EQ(first - middle, sizes.embedding); // One layer each.
}

INSTANTIATE_TEST_SUITE_P(Models, Slices, testing::Bool(), [](auto const& tied) {
    return tied.param ? "tied" : "untied";
});

// ---- failures

class Failures : public testing::Test {
protected:
    Failures() { ModelWriter(ModelShape{}).write(path_); }

    // Rank 1 of 2, read like this.
    Result<LoadedModel> load_rank_1(ReadAt read_at) {
        LoneRank group(1, 2);
        auto loaded = load(options_for({path_}, Sharding::pipeline, 2, std::move(read_at)), group);
        EXPECT_EQ(group.health().has_value(), loaded.has_value()) << "the other ranks are not told";
        return loaded;
    }

    TemporaryFolder folder_;
    std::string path_ = folder_ / "model.gguf";
};

std::size_t open_descriptors() {
    std::filesystem::directory_iterator const all("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::size_t mappings() {
    std::ifstream maps("/proc/self/maps");
    std::size_t count = 0;
    for (std::string line; std::getline(maps, line);) {
        ++count;
    }
    return count;
}

TEST_F(Failures, every_read_that_fails_ends_the_load_with_rank_file_and_tensor) {
    Counter counter;
    ASSERT_TRUE(load_rank_1(counter.read_at()));
    ASSERT_GT(counter.calls(), 10u);
    std::size_t const descriptors = open_descriptors();
    std::size_t after_first = 0;
    for (std::uint64_t fatal = 0; fatal < counter.calls(); ++fatal) {
        bool const ends = fatal % 2 == 0; // The file became shorter, or the disk is broken.
        std::atomic<std::uint64_t> call{0};
        auto const loaded = load_rank_1([&](int file, void* into, std::size_t bytes, off_t at) {
            if (call++ != fatal) {
                return pread(file, into, bytes, at);
            }
            errno = EIO;
            return ends ? ssize_t{0} : ssize_t{-1};
        });
        ASSERT_FALSE(loaded) << "call " << fatal;
        auto const text = loaded.error().text();
        for (std::string const& part : {std::string("rank 1: "), path_, std::string("tensor ")}) {
            EXPECT_NE(text.find(part), std::string::npos) << text;
        }
        EXPECT_NE(text.find(ends ? "is truncated" : "Input/output error"), std::string::npos);
        EXPECT_EQ(loaded.error().code(), ends ? Errc::corrupt : Errc::io);
        EXPECT_EQ(open_descriptors(), descriptors);
        after_first = fatal == 0 ? mappings() : after_first;
    }
    // A reservation or a buffer that stays would be one more each time; the allocator's are few.
    EXPECT_LT(mappings(), after_first + counter.calls() / 2);
}

TEST_F(Failures, short_and_interrupted_reads_are_none) {
    std::atomic<std::uint64_t> call{0};
    EXPECT_TRUE(load_rank_1([&](int file, void* into, std::size_t bytes, off_t at) {
        auto const number = call++;
        if (number % 3 == 0) {
            errno = EINTR;
            return ssize_t{-1};
        }
        return pread(file, into, number % 3 == 1 ? std::max<std::size_t>(1, bytes / 2) : bytes, at);
    }));
}

TEST_F(Failures, a_file_that_is_replaced_meanwhile_is_noticed) {
    std::string const other = folder_ / "other.gguf";
    ModelWriter(ModelShape{}).write(other);
    std::once_flag once;
    auto const loaded = load_rank_1([&](int file, void* into, std::size_t bytes, off_t at) {
        std::call_once(once, [&] { std::filesystem::rename(other, path_); });
        return pread(file, into, bytes, at);
    });
    ASSERT_FALSE(loaded);
    EXPECT_EQ(
        loaded.error().text(),
        "rank 1: " + path_ + " was replaced while it was being loaded; load it again"
    );
}

TEST_F(Failures, a_file_that_is_written_to_meanwhile_is_noticed) {
    std::once_flag once;
    auto const loaded = load_rank_1([&](int file, void* into, std::size_t bytes, off_t at) {
        std::call_once(once, [&] { std::ofstream(path_, std::ios::app) << "more"; });
        return pread(file, into, bytes, at);
    });
    ASSERT_FALSE(loaded);
    EXPECT_NE(loaded.error().text().find("was written to"), std::string::npos);
}

TEST_F(Failures, a_tensor_of_another_shape_than_the_header_asks_for_is_named) {
    ModelShape shape;
    shape.odd_query = true;
    ModelWriter(shape).write(path_);
    auto const loaded = load_rank_1({});
    ASSERT_FALSE(loaded);
    auto const text = loaded.error().text();
    EXPECT_NE(text.find("rank 1: "), std::string::npos) << text;
    EXPECT_NE(text.find(path_), std::string::npos) << text;
    EXPECT_NE(text.find("blk.1.attn_q.weight"), std::string::npos) << text;
}

TEST_F(Failures, a_named_pipe_is_refused_at_once) {
    std::string const pipe = folder_ / "pipe.gguf";
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    auto const files = ModelFiles::open({pipe});
    ASSERT_FALSE(files);
    EXPECT_EQ(files.error().text(), pipe + " is not a file");
}

// ---- progress

// 40 MiB of one tensor, and little else.
ModelShape one_large_tensor() {
    ModelShape shape;
    shape.layers = 1;
    shape.vocabulary = 1u << 18;
    shape.tied = true;
    return shape;
}

TEST(Progress, it_rises_within_a_large_tensor_and_arrives) {
    TemporaryFolder const folder;
    auto const path = folder / "model.gguf";
    ModelWriter(one_large_tensor()).write_sparse(path);
    // Reading goes on when progress was told.
    std::counting_semaphore<1 << 20> told(4);
    auto const files =
        ModelFiles::open({path}, [&](int file, void* into, std::size_t bytes, off_t at) {
            told.acquire();
            return pread(file, into, bytes, at);
        });
    ASSERT_TRUE(files) << files.error().text();
    auto const& entry = *(*files)->find("token_embd.weight");
    std::vector<std::uint8_t> memory(entry.bytes);
    TensorReads const tensor{
        "token_embd.weight", {{.from = entry.place, .to = memory.data(), .bytes = entry.bytes}}
    };
    std::vector<std::uint64_t> steps;
    auto const read = read_weights(
        **files,
        {tensor},
        {.on_progress =
             [&](std::uint64_t done, std::uint64_t all) {
                 EXPECT_EQ(all, entry.bytes);
                 steps.push_back(done);
                 told.release();
             },
         .check = [] { return Result<void>(); }}
    );
    ASSERT_TRUE(read);
    EXPECT_TRUE(std::ranges::is_sorted(steps));
    EXPECT_EQ(steps.back(), entry.bytes);
    EXPECT_TRUE(std::ranges::any_of(steps, [&](auto done) {
        return done > 0 && done < entry.bytes;
    }));
}

TEST(Progress, each_rank_arrives_at_all_layers) {
    TemporaryFolder const folder;
    auto const path = folder / "model.gguf";
    ModelWriter(ModelShape{}).write(path);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
        LoneRank group(rank, 3);
        auto outline = outline_model(options_for({path}, Sharding::pipeline, 3), &group);
        ASSERT_TRUE(outline) << outline.error().text();
        std::vector<std::uint32_t> layers;
        ASSERT_TRUE(finish_model(std::move(*outline), group, [&](std::uint32_t done) {
            layers.push_back(done);
        }));
        EXPECT_TRUE(std::ranges::is_sorted(layers));
        EXPECT_EQ(layers.back(), 4u);
    }
}

// No read comes back before the error was noticed: it is looked for while reads wait.
TEST(Progress, an_error_of_another_rank_ends_the_reading) {
    TemporaryFolder const folder;
    auto const path = folder / "model.gguf";
    ModelWriter(one_large_tensor()).write_sparse(path);
    std::mutex mutex;
    std::condition_variable changed;
    bool noticed = false;
    auto const read_at = [&](int file, void* into, std::size_t bytes, off_t at) {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return noticed; });
        return pread(file, into, bytes, at);
    };
    auto const files = ModelFiles::open({path}, read_at);
    ASSERT_TRUE(files) << files.error().text();
    auto const& entry = *(*files)->find("token_embd.weight");
    std::vector<std::uint8_t> memory(entry.bytes);
    TensorReads const tensor{
        "token_embd.weight", {{.from = entry.place, .to = memory.data(), .bytes = entry.bytes}}
    };
    auto const check = [&] {
        std::scoped_lock const lock(mutex);
        noticed = true;
        changed.notify_all();
        return Result<void>(Error(Errc::unavailable, "rank 2 is gone"));
    };
    auto const on_progress = [](std::uint64_t, std::uint64_t) { ADD_FAILURE() << "it went on"; };
    auto const read = read_weights(**files, {tensor}, {.on_progress = on_progress, .check = check});
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().text(), "rank 2 is gone");
}

// ---- a model in several files

class Parts : public testing::Test {
protected:
    Parts() {
        ModelWriter(ModelShape{}).write(whole_);
        paths_ = write_parts(whole_, folder_ / "parts", 3);
    }

    std::string refusal(std::vector<std::string> const& paths) {
        auto const files = ModelFiles::open(paths);
        EXPECT_FALSE(files.has_value());
        return files ? "" : files.error().text();
    }

    TemporaryFolder folder_;
    std::string whole_ = folder_ / "whole.gguf";
    std::vector<std::string> paths_;
};

TEST_F(Parts, the_probe_says_of_them_what_it_says_of_the_whole) {
    for (auto const sharding : {Sharding::pipeline, Sharding::tensor}) {
        auto const whole = probe_model(options_for({whole_}, sharding, 2));
        auto const parts = probe_model(options_for(paths_, sharding, 2));
        ASSERT_TRUE(whole && parts) << parts.error().text();
        for (std::size_t rank = 0; rank < 2; ++rank) {
            EXPECT_EQ(whole->ranks[rank].weight_bytes, parts->ranks[rank].weight_bytes);
            EXPECT_EQ(whole->ranks[rank].compute_bytes, parts->ranks[rank].compute_bytes);
        }
    }
}

TEST_F(Parts, the_first_one_names_the_others) {
    LoneRank group(0, 1);
    auto const loaded = load(options_for({paths_[0]}, Sharding::pipeline, 1), group);
    EXPECT_TRUE(loaded) << loaded.error().text();
}

TEST_F(Parts, a_missing_one_is_named) {
    std::filesystem::remove(paths_[1]);
    for (auto const& paths : {paths_, std::vector{paths_[0]}}) {
        auto const text = refusal(paths);
        EXPECT_NE(text.find(paths_[1]), std::string::npos) << text;
        EXPECT_NE(text.find("No such file"), std::string::npos) << text;
    }
}

TEST_F(Parts, one_of_another_model_is_named) {
    ModelShape other;
    other.layers = 5;
    std::string const source = folder_ / "other.gguf";
    ModelWriter(other).write(source);
    auto const others = write_parts(source, folder_ / "others", 3);
    std::filesystem::rename(others[1], paths_[1]);
    auto const text = refusal({paths_[0]});
    EXPECT_NE(text.find(paths_[1]), std::string::npos) << text;
    EXPECT_NE(text.find("different models"), std::string::npos) << text;
}

TEST_F(Parts, in_another_order_they_are_refused) {
    std::swap(paths_[1], paths_[2]);
    EXPECT_NE(refusal(paths_).find("is part 3 of 3"), std::string::npos);
}

} // namespace
} // namespace exo::engine
