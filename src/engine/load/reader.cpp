// SPDX-License-Identifier: Apache-2.0
#include "engine/load/reader.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

namespace exo::engine {
namespace {

// More threads gain nothing on one disk; fewer leave a fast one waiting.
constexpr std::size_t threads_max = 4;
// One system call reads at most so much: large enough to be fast, small enough to share out.
constexpr std::size_t piece_bytes_max = 4u << 20;
// Rows further apart are read one by one; nearer ones in one go, with what lies between.
constexpr std::size_t row_stride_max = 256u << 10;

struct Piece {
    TensorReads const* tensor;
    WeightRead read;
};

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
        piece.to = static_cast<std::uint8_t*>(read.to) + row * read.memory_stride;
        piece.count = std::min(rows_each, read.count - row);
        pieces.push_back({&tensor, piece});
    }
}

Result<void> read_rows(ModelFiles const& files, Piece const& piece, Bytes& span) {
    auto const& read = piece.read;
    auto* const to = static_cast<std::uint8_t*>(read.to);
    span.resize((read.count - 1) * read.file_stride + read.bytes);
    EXO_TRY(files.read(piece.tensor->tensor, read.from, span.data(), span.size()));
    for (std::size_t row = 0; row < read.count; ++row) {
        std::memcpy(
            to + row * read.memory_stride, span.data() + row * read.file_stride, read.bytes
        );
    }
    return {};
}

Result<void> read_piece(ModelFiles const& files, Piece const& piece, Bytes& span) {
    auto const& read = piece.read;
    if (read.count == 1) {
        return files.read(piece.tensor->tensor, read.from, read.to, read.bytes);
    }
    if (read.file_stride <= row_stride_max) {
        return read_rows(files, piece, span);
    }
    for (std::size_t row = 0; row < read.count; ++row) {
        FilePlace const from{read.from.file, read.from.offset + row * read.file_stride};
        auto* const to = static_cast<std::uint8_t*>(read.to) + row * read.memory_stride;
        EXO_TRY(files.read(piece.tensor->tensor, from, to, read.bytes));
    }
    return {};
}

// What the reading threads share.
class Work {
public:
    Work(ModelFiles const& files, std::vector<Piece> pieces)
        : files_(files)
        , pieces_(std::move(pieces)) {
        for (auto const& piece : pieces_) {
            if (auto const layer = layer_of(piece.tensor->tensor)) {
                ++pieces_of_layer_[*layer];
            }
        }
    }

    void run() {
        Bytes span;
        for (;;) {
            auto const index = next_++;
            if (index >= pieces_.size() || failed_) {
                break;
            }
            auto result = read_piece(files_, pieces_[index], span);
            std::scoped_lock const lock(mutex_);
            ++done_;
            if (!result && !failed_) {
                error_ = result.error();
                failed_ = true;
            }
            count_layer(pieces_[index]);
            changed_.notify_one();
        }
    }

    Result<void> wait(std::function<void(std::uint32_t)> const& on_progress) {
        std::unique_lock lock(mutex_);
        std::uint32_t told = 0;
        while (done_ < pieces_.size() && !failed_) {
            changed_.wait(lock);
            if (layers_ != told && !failed_) {
                told = layers_;
                lock.unlock();
                on_progress(told);
                lock.lock();
            }
        }
        return error_ ? Result<void>(*error_) : Result<void>();
    }

private:
    void count_layer(Piece const& piece) {
        if (auto const layer = layer_of(piece.tensor->tensor)) {
            layers_ += --pieces_of_layer_[*layer] == 0 ? 1 : 0;
        }
    }

    ModelFiles const& files_;
    std::vector<Piece> const pieces_;
    std::atomic<std::size_t> next_{0};
    std::atomic<bool> failed_{false};

    std::mutex mutex_; // Of all below.
    std::condition_variable changed_;
    std::size_t done_ = 0;
    std::uint32_t layers_ = 0;
    std::map<std::uint32_t, std::size_t> pieces_of_layer_;
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
    ModelFiles const& files,
    std::vector<TensorReads> const& tensors,
    std::function<void(std::uint32_t layers)> const& on_progress
) {
    std::vector<Piece> pieces;
    for (auto const& tensor : tensors) {
        for (auto const& read : tensor.reads) {
            if (read.count == 1) {
                cut_contiguous(tensor, read, pieces);
            } else {
                cut_rows(tensor, read, pieces);
            }
        }
    }
    // In the order of the file: a disk reads ahead.
    std::ranges::sort(pieces, {}, [](Piece const& piece) {
        return std::pair(piece.read.from.file, piece.read.from.offset);
    });
    auto const thread_count = std::min(threads_max, pieces.size());
    Work work(files, std::move(pieces));
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < thread_count; ++i) {
        threads.emplace_back([&work] { work.run(); });
    }
    return work.wait(on_progress);
}

} // namespace exo::engine
