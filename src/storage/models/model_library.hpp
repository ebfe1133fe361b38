// SPDX-License-Identifier: Apache-2.0
//
// The models on this machine's disks: every GGUF below the model folders, read by its header.
// Driven by whoever may wait for a disk; not thread-safe, one owner. A scan after the first reads
// only files whose size or time of change is new.
#pragma once

#include "model/card.hpp"
#include "model/gguf/card.hpp"

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace exo::storage {

// How deep below a model folder files are looked for: owner/repo/quant/file and, in a Hugging Face
// cache, models--owner--repo/snapshots/revision/quant/file.
constexpr int scan_depth_max = 6;
// A folder given by mistake ("/") must not keep a node busy for hours.
constexpr std::size_t scan_entries_max = 200'000;

struct LocalModel {
    model::ModelCard card;
    std::vector<std::filesystem::path> paths; // All parts, in order. The first opens the model.

    bool operator==(LocalModel const&) const = default;
};

struct RefusedFile {
    std::filesystem::path path;
    std::string reason;

    bool operator==(RefusedFile const&) const = default;
};

struct Scan {
    std::vector<LocalModel> models; // Sorted by id; no id twice.
    std::vector<RefusedFile> refused;

    bool operator==(Scan const&) const = default;
};

class ModelLibrary {
public:
    // In order of precedence: of two models with one id the first folder's is taken.
    explicit ModelLibrary(std::vector<std::filesystem::path> folders);

    // What is there now. Each refusal is logged once. Folders that do not exist are empty.
    [[nodiscard]] Scan const& scan();

    [[nodiscard]] Scan const& last() const { return scan_; }

    // The model with exactly this id in the last scan, or null.
    [[nodiscard]] LocalModel const* find(model::ModelId const& id) const;

    // How many headers the last scan had to read: the others were known.
    [[nodiscard]] std::size_t headers_read() const { return headers_read_; }

private:
    struct Stamp {
        std::uint64_t bytes = 0;
        std::int64_t changed = 0;
        bool operator==(Stamp const&) const = default;
    };

    // What one file's header gave.
    struct Facts {
        Stamp stamp;
        model::gguf::Content content = model::gguf::Content::model;
        std::optional<model::gguf::Split> split;
        std::uint64_t tensor_bytes = 0;
        std::uint64_t tensors_count = 0;
        model::ModelCard card; // As if the file were the whole model; empty for a later part.
        std::string refusal;   // Not empty: the rest means nothing.
    };

    // One file of a scan.
    struct Found {
        std::filesystem::path path;
        std::string owner_repo; // Empty for a loose file.
        Facts const* facts = nullptr;
    };

    // One whole model of a scan, before it has an id.
    struct Candidate {
        LocalModel model;
        std::string base; // The id without its quantization.
        std::string stem;
    };

    void walk(
        std::filesystem::path const& root,
        std::filesystem::path const& folder,
        int depth,
        std::vector<Found>& found
    );
    void visit(
        std::filesystem::path const& root,
        std::filesystem::path const& path,
        std::vector<Found>& found
    );
    [[nodiscard]] Facts const& facts_of(std::filesystem::path const& path, Stamp stamp);
    void collect(std::vector<Found> const& found, std::vector<Candidate>& candidates);
    void join_parts(
        std::vector<Found const*> const& parts,
        std::uint32_t count,
        std::vector<Candidate>& candidates
    );
    void add_candidate(
        Found const& first,
        std::vector<std::filesystem::path> paths,
        std::uint64_t tensor_bytes,
        std::vector<Candidate>& candidates
    );
    void name_models(std::vector<Candidate> candidates);
    void refuse(std::filesystem::path const& path, std::string reason);

    std::vector<std::filesystem::path> folders_;
    std::map<std::filesystem::path, Facts> known_;
    std::set<std::filesystem::path> seen_; // Real paths in the scan under way.
    std::set<std::pair<std::filesystem::path, std::string>> logged_;
    std::size_t entries_ = 0;
    std::size_t headers_read_ = 0;
    Scan scan_;
};

// Reads as much of the file as its header needs, and checks that all tensors are there. Errors:
// io, and those of gguf::parse_header and check_complete.
[[nodiscard]] Result<model::gguf::Header> read_gguf_header(std::filesystem::path const& path);

} // namespace exo::storage
