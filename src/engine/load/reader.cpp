// SPDX-License-Identifier: Apache-2.0
#include "engine/load/reader.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>

namespace exo::engine {
namespace {

// More threads gain nothing on one disk; fewer leave a fast one waiting.
constexpr std::size_t threads_max = 4;
// One system call reads at most so much: large enough to be fast, small enough to share out.
constexpr std::size_t piece_bytes_max = 4u << 20;
// Of rows that are nearer the system is told to read ahead what lies between, too: a disk is faster
// in one go. What is further apart is not worth it.
constexpr std::size_t read_ahead_stride_max = 64u << 10;
// How long an error elsewhere may go unnoticed.
constexpr std::chrono::milliseconds check_interval{200};

struct Piece {
    TensorReads const* tensor;
    WeightRead read;
};

std::uint64_t bytes_of(WeightRead const& read) {
    return std::uint64_t{read.bytes} * read.count;
}

// In the file, with what lies between the rows.
std::uint64_t span_of(WeightRead const& read) {
    return (read.count - 1) * std::uint64_t{read.file_stride} + read.bytes;
}

std::uint8_t* target(WeightRead const& read, std::size_t row) {
    return static_cast<std::uint8_t*>(read.to) + row * read.memory_stride;
}

void cut_contiguous(TensorReads const& tensor, WeightRead const& read, std::vector<Piece>& pieces) {
    for (std::size_t at = 0; at < read.bytes; at += piece_bytes_max) {
        auto piece = read;
        piece.from.offset += at;
        piece.to = static_cast<std::uint8_t*>(read.to) + at;
        piece.bytes = std::min(piece_bytes_max, read.bytes - at);
        pieces.push_back({&tensor, piece});
    }
}

void cut_rows(TensorReads const& tensor, WeightRead const& read, std::vector<Piece>& pieces) {
    auto const rows_each = std::max<std::size_t>(1, piece_bytes_max / read.file_stride);
    for (std::size_t row = 0; row < read.count; row += rows_each) {
        auto piece = read;
        piece.from.offset += row * read.file_stride;
        piece.to = target(read, row);
        piece.count = std::min(rows_each, read.count - row);
        pieces.push_back({&tensor, piece});
    }
}

Result<void> read_piece(ModelFiles const& files, Piece const& piece) {
    auto const& read = piece.read;
    if (read.count > 1 && read.file_stride <= read_ahead_stride_max) {
        files.read_ahead(read.from, span_of(read));
    }
    for (std::size_t row = 0; row < read.count; ++row) {
        FilePlace const from{read.from.file, read.from.offset + row * read.file_stride};
        EXO_TRY(files.read(piece.tensor->tensor, from, target(read, row), read.bytes));
    }
    return {};
}

// ---- a tensor that is wanted twice

struct Copy {
    WeightRead read;
    std::uint8_t const* from;
};

// What is read in one stretch, by where it begins.
using Stretches = std::map<std::pair<std::uint32_t, std::uint64_t>, WeightRead const*>;

// Where the bytes of `read` come to by another read, longer or met before; null if by none.
std::uint8_t const* elsewhere(Stretches const& stretches, WeightRead const& read) {
    auto after = stretches.upper_bound({read.from.file, read.from.offset});
    if (after == stretches.begin()) {
        return nullptr;
    }
    auto const& other = *std::prev(after)->second;
    auto const into = read.from.offset - other.from.offset;
    bool const within =
        &other != &read && other.from.file == read.from.file && into + span_of(read) <= other.bytes;
    return within ? static_cast<std::uint8_t const*>(other.to) + into : nullptr;
}

void copy(Copy const& copy) {
    for (std::size_t row = 0; row < copy.read.count; ++row) {
        std::memcpy(
            target(copy.read, row), copy.from + row * copy.read.file_stride, copy.read.bytes
        );
    }
}

struct Plan {
    std::vector<Piece> pieces; // In the order of the file: a disk reads ahead.
    std::vector<Copy> copies;  // When all pieces are there.
    std::uint64_t bytes = 0;   // Of the pieces.
};

// Without those that lie within others: they are copies themselves.
Stretches find_stretches(std::vector<TensorReads> const& tensors) {
    Stretches stretches;
    for (auto const& tensor : tensors) {
        for (auto const& read : tensor.reads) {
            auto const place = std::pair(read.from.file, read.from.offset);
            if (read.count == 1) {
                auto& longest = stretches.try_emplace(place, &read).first->second;
                longest = read.bytes > longest->bytes ? &read : longest;
            }
        }
    }
    std::pair<std::uint32_t, std::uint64_t> reach{}; // File and end of what is kept so far.
    std::erase_if(stretches, [&](auto const& entry) {
        auto const& [file, offset] = entry.first;
        auto const end = offset + entry.second->bytes;
        bool const within = file == reach.first && end <= reach.second;
        reach = within ? reach : std::pair(file, end);
        return within;
    });
    return stretches;
}

Plan make_plan(std::vector<TensorReads> const& tensors) {
    auto const stretches = find_stretches(tensors);
    Plan plan;
    for (auto const& tensor : tensors) {
        for (auto const& read : tensor.reads) {
            if (auto const* const from = elsewhere(stretches, read)) {
                plan.copies.push_back({read, from});
                continue;
            }
            plan.bytes += bytes_of(read);
            if (read.count == 1) {
                cut_contiguous(tensor, read, plan.pieces);
            } else {
                cut_rows(tensor, read, plan.pieces);
            }
        }
    }
    std::ranges::sort(plan.pieces, {}, [](Piece const& piece) {
        return std::pair(piece.read.from.file, piece.read.from.offset);
    });
    return plan;
}

// What the reading threads share.
class Work {
public:
    Work(ModelFiles const& files, std::vector<Piece> pieces, ReadHooks const& hooks)
        : files_(files)
        , pieces_(std::move(pieces))
        , hooks_(hooks) {}

    [[nodiscard]] std::size_t threads() const { return std::min(threads_max, pieces_.size()); }

    void run() {
        for (;;) {
            auto const index = next_++;
            if (index >= pieces_.size() || failed_) {
                break;
            }
            auto result = read_piece(files_, pieces_[index]);
            if (result && hooks_.landed) {
                result = hooks_.landed(pieces_[index].read);
            }
            std::scoped_lock const lock(mutex_);
            ++done_;
            bytes_ += bytes_of(pieces_[index].read);
            if (!result) {
                stop(result.error());
            }
            changed_.notify_one();
        }
    }

    Result<void> wait(std::uint64_t all) {
        std::unique_lock lock(mutex_);
        while (done_ < pieces_.size() && !failed_) {
            changed_.wait_for(lock, check_interval);
            auto const bytes = bytes_;
            lock.unlock();
            auto const health = hooks_.check();
            if (health) {
                hooks_.on_progress(bytes, all);
            }
            lock.lock();
            if (!health) {
                stop(health.error());
            }
        }
        return error_ ? Result<void>(*error_) : Result<void>();
    }

private:
    // With the lock.
    void stop(Error error) {
        if (!failed_) {
            error_ = std::move(error);
            failed_ = true;
        }
    }

    ModelFiles const& files_;
    std::vector<Piece> const pieces_;
    ReadHooks const& hooks_;
    std::atomic<std::size_t> next_{0};
    std::atomic<bool> failed_{false};

    std::mutex mutex_; // Of all below.
    std::condition_variable changed_;
    std::size_t done_ = 0;
    std::uint64_t bytes_ = 0;
    std::optional<Error> error_;
};

} // namespace

std::optional<std::uint32_t> layer_of(std::string_view tensor) {
    constexpr std::string_view prefix = "blk.";
    if (!tensor.starts_with(prefix)) {
        return std::nullopt;
    }
    std::uint32_t layer = 0;
    auto const* const begin = tensor.data() + prefix.size();
    auto const* const end = tensor.data() + tensor.size();
    auto const [rest, error] = std::from_chars(begin, end, layer);
    return error == std::errc{} && rest != begin ? std::optional(layer) : std::nullopt;
}

Result<void> read_weights(
    ModelFiles const& files, std::vector<TensorReads> const& tensors, ReadHooks const& hooks
) {
    auto plan = make_plan(tensors);
    Work work(files, std::move(plan.pieces), hooks);
    {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < work.threads(); ++i) {
            threads.emplace_back([&work] { work.run(); });
        }
        EXO_TRY(work.wait(plan.bytes));
    }
    for (auto const& wanted : plan.copies) {
        copy(wanted);
        if (hooks.landed) {
            EXO_TRY(hooks.landed(wanted.read));
        }
    }
    hooks.on_progress(plan.bytes, plan.bytes);
    return {};
}

} // namespace exo::engine
