// SPDX-License-Identifier: Apache-2.0
#include "storage/models/model_library.hpp"

#include "base/log.hpp"
#include "base/text.hpp"
#include "storage/files/files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <system_error>

namespace exo::storage {
namespace {

namespace fs = std::filesystem;
namespace gguf = model::gguf;

constexpr std::uint64_t first_read_bytes = 1u << 20; // Most headers of small models fit.
constexpr std::size_t logged_max = 10'000;           // Refusals remembered, so as to log them once.

bool is_gguf_name(std::string const& name) {
    return to_lower(name).ends_with(".gguf");
}

// Ollama keeps models without extension, named by their hash.
bool is_blob_name(std::string const& name) {
    return name.starts_with("sha256-");
}

// "owner/repo" of a file at `below` its model folder: owner/repo/..., owner--repo/..., or, in a
// Hugging Face cache, models--owner--repo/snapshots/...
std::string owner_repo_of(fs::path const& below) {
    std::vector<std::string> folders;
    for (auto const& part : below.parent_path()) {
        folders.push_back(part.string());
    }
    if (folders.empty()) {
        return "";
    }
    std::string first = folders.front();
    constexpr std::string_view cache_prefix = "models--";
    if (first.starts_with(cache_prefix)) {
        first.erase(0, cache_prefix.size());
    }
    if (auto const dashes = first.find("--"); dashes != std::string::npos) {
        return first.replace(dashes, 2, "/");
    }
    return folders.size() >= 2 ? first + "/" + folders[1] : "";
}

// "Llama 3.2 1B" as an id: "llama-3.2-1b".
std::string as_id(std::string const& name) {
    std::string id = to_lower(name);
    std::replace_if(
        id.begin(), id.end(), [](char c) { return c == ' ' || c == '/' || c == ':'; }, '-'
    );
    return id;
}

} // namespace

Result<gguf::Header> read_gguf_header(fs::path const& path) {
    std::error_code error;
    std::uint64_t const file_bytes = fs::file_size(path, error);
    if (error) {
        return io_error("cannot read " + path.string(), error);
    }
    std::uint64_t wanted = first_read_bytes;
    while (true) {
        auto prefix = read_range(path, 0, std::min(wanted, file_bytes));
        if (!prefix) {
            return prefix.error();
        }
        if (prefix->size() < std::min(wanted, file_bytes)) {
            return Error(Errc::io, path.string() + " became shorter while it was read");
        }
        auto parsed = gguf::parse_header(*prefix, file_bytes);
        if (!parsed) {
            return parsed.error();
        }
        if (auto* header = std::get_if<gguf::Header>(&*parsed)) {
            EXO_TRY(gguf::check_complete(*header, file_bytes));
            return Result<gguf::Header>(std::move(*header));
        }
        wanted = std::max(std::get<gguf::NeedMore>(*parsed).bytes, 2 * wanted);
    }
}

ModelLibrary::ModelLibrary(std::vector<fs::path> folders)
    : folders_(std::move(folders)) {}

Scan const& ModelLibrary::scan() {
    scan_ = {};
    seen_.clear();
    entries_ = 0;
    headers_read_ = 0;
    std::vector<Candidate> candidates;
    std::set<fs::path> still_there;
    for (auto const& folder : folders_) {
        std::vector<Found> found;
        walk(folder, folder, 0, found);
        collect(found, candidates);
        for (auto const& file : found) {
            still_there.insert(file.path);
        }
    }
    name_models(std::move(candidates));
    std::erase_if(known_, [&](auto const& entry) { return !still_there.contains(entry.first); });
    return scan_;
}

LocalModel const* ModelLibrary::find(model::ModelId const& id) const {
    auto const found =
        std::find_if(scan_.models.begin(), scan_.models.end(), [&](auto const& local) {
            return local.card.model_id == id;
        });
    return found == scan_.models.end() ? nullptr : &*found;
}

void ModelLibrary::walk(
    fs::path const& root, fs::path const& folder, int depth, std::vector<Found>& found
) {
    std::error_code error;
    std::vector<fs::path> paths;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
        if (++entries_ > scan_entries_max) {
            refuse(root, fmt::format("over {} entries: is it a model folder?", scan_entries_max));
            return;
        }
        paths.push_back(entry->path());
    }
    if (error && error != std::errc::no_such_file_or_directory) {
        refuse(folder, "cannot be read: " + error.message());
    }
    std::sort(paths.begin(), paths.end()); // The file system's order is any.
    // Of a Hugging Face cache only the snapshots have names; the blobs are the same files.
    bool const is_cache = folder.filename().string().starts_with("models--");
    for (auto const& path : paths) {
        auto const name = path.filename().string();
        if (name.starts_with(".") || (is_cache && name != "snapshots")) {
            continue;
        }
        if (fs::is_directory(path, error)) {
            if (depth < scan_depth_max) {
                walk(root, path, depth + 1, found);
            }
        } else if (is_gguf_name(name) || is_blob_name(name)) {
            visit(root, path, found);
        }
    }
}

void ModelLibrary::visit(fs::path const& root, fs::path const& path, std::vector<Found>& found) {
    std::error_code error;
    auto const real = fs::canonical(path, error);
    if (error) {
        return refuse(path, "cannot be read: " + error.message());
    }
    if (!seen_.insert(real).second) {
        return; // The same file by another way.
    }
    Stamp stamp;
    stamp.bytes = fs::is_regular_file(real, error) ? fs::file_size(real, error) : 0;
    stamp.changed = error ? 0 : fs::last_write_time(real, error).time_since_epoch().count();
    if (!is_utf8(path.string())) {
        return refuse(path, "its name is no valid UTF-8");
    }
    found.push_back(
        {.path = path,
         .owner_repo = owner_repo_of(path.lexically_relative(root)),
         .facts = &facts_of(path, stamp)}
    );
}

ModelLibrary::Facts const& ModelLibrary::facts_of(fs::path const& path, Stamp stamp) {
    auto const known = known_.find(path);
    if (known != known_.end() && known->second.stamp == stamp) {
        return known->second;
    }
    ++headers_read_;
    Facts facts{.stamp = stamp};
    auto const header = read_gguf_header(path);
    if (!header) {
        facts.refusal = header.error().text();
        return known_[path] = std::move(facts);
    }
    facts.content = gguf::content_of(*header);
    facts.split = gguf::split_of(*header);
    facts.tensor_bytes = header->tensor_bytes;
    facts.tensors_count = header->tensors.size();
    bool const later_part = facts.split && facts.split->number > 0;
    if (facts.content == gguf::Content::model && !later_part) {
        auto card = gguf::card_from_gguf(*header, header->tensor_bytes, path.filename().string());
        if (card) {
            facts.card = std::move(*card);
        } else {
            facts.refusal = card.error().text();
        }
    }
    return known_[path] = std::move(facts);
}

void ModelLibrary::collect(std::vector<Found> const& found, std::vector<Candidate>& candidates) {
    std::map<std::pair<fs::path, std::uint32_t>, std::vector<Found const*>> splits;
    for (auto const& file : found) {
        auto const name = file.path.filename().string();
        if (!file.facts->refusal.empty()) {
            if (!is_blob_name(name)) { // Ollama's blobs are licences and templates too.
                refuse(file.path, file.facts->refusal);
            }
            continue;
        }
        if (file.facts->content != gguf::Content::model) {
            continue;
        }
        auto const part = gguf::parse_part_name(name);
        if (file.facts->split && part) {
            splits[{file.path.parent_path() / part->base, part->count}].push_back(&file);
        } else if (file.facts->split) {
            refuse(
                file.path,
                fmt::format(
                    "it is part {} of {} of a split model, but its name does not end in "
                    "-{:05}-of-{:05}.gguf",
                    file.facts->split->number + 1,
                    file.facts->split->count,
                    file.facts->split->number + 1,
                    file.facts->split->count
                )
            );
        } else {
            add_candidate(file, {file.path}, file.facts->tensor_bytes, candidates);
        }
    }
    for (auto const& [key, parts] : splits) {
        join_parts(parts, key.second, candidates);
    }
}

void ModelLibrary::join_parts(
    std::vector<Found const*> const& parts, std::uint32_t count, std::vector<Candidate>& candidates
) {
    std::vector<fs::path> paths; // In order: the walk sorts, and the numbers have five digits.
    std::set<std::uint64_t> missing;
    std::uint64_t tensor_bytes = 0;
    std::uint64_t tensors_count = 0;
    for (std::uint32_t number = 1; number <= count; ++number) {
        missing.insert(number);
    }
    for (auto const* part : parts) {
        auto const named = gguf::parse_part_name(part->path.filename().string());
        auto const& split = *part->facts->split;
        if (split.number + 1 != named->number || split.count != count) {
            return refuse(
                part->path,
                fmt::format(
                    "its header says part {} of {}: it has been renamed",
                    split.number + 1,
                    split.count
                )
            );
        }
        missing.erase(named->number);
        paths.push_back(part->path);
        tensor_bytes += part->facts->tensor_bytes;
        tensors_count += part->facts->tensors_count;
    }
    if (!missing.empty()) {
        return refuse(
            paths.front(),
            fmt::format("of its {} parts these are missing: {}", count, fmt::join(missing, ", "))
        );
    }
    auto const expected = parts.front()->facts->split->tensors_count;
    if (expected != 0 && expected != tensors_count) {
        return refuse(
            paths.front(),
            fmt::format("its parts have {} tensors, expected {}", tensors_count, expected)
        );
    }
    add_candidate(*parts.front(), std::move(paths), tensor_bytes, candidates);
}

void ModelLibrary::add_candidate(
    Found const& first,
    std::vector<fs::path> paths,
    std::uint64_t tensor_bytes,
    std::vector<Candidate>& candidates
) {
    auto const name = first.path.filename().string();
    auto const parsed = gguf::parse_file_name(name);
    Candidate candidate;
    candidate.model = {.card = first.facts->card, .paths = std::move(paths)};
    auto& card = candidate.model.card;
    card.storage_size.in_bytes = tensor_bytes;
    // A file's name can say more than its header: "UD-Q4_K_XL" is Q4_K_M there.
    if (!parsed.quantization.empty()) {
        card.quantization = parsed.quantization;
    }
    candidate.stem = is_blob_name(name) ? as_id(card.name) : as_id(parsed.stem);
    candidate.base = first.owner_repo.empty() ? candidate.stem : first.owner_repo;
    candidates.push_back(std::move(candidate));
}

void ModelLibrary::name_models(std::vector<Candidate> candidates) {
    // base -> (stem, quantization) -> model; of equals the first stays.
    std::map<std::string, std::map<std::pair<std::string, std::string>, LocalModel>> groups;
    for (auto& candidate : candidates) {
        auto const quantization = candidate.model.card.quantization;
        groups[candidate.base].try_emplace(
            {candidate.stem, quantization}, std::move(candidate.model)
        );
    }
    for (auto& [base, variants] : groups) {
        std::set<std::string> quantizations;
        for (auto const& [variant, local] : variants) {
            quantizations.insert(variant.second);
        }
        bool const by_quantization =
            quantizations.size() == variants.size() && !quantizations.contains("");
        for (auto& [variant, local] : variants) {
            auto const& [stem, quantization] = variant;
            auto const full = quantization.empty() ? stem : stem + "." + quantization;
            auto const suffix = ":" + (by_quantization ? quantization : full);
            local.card.model_id = model::ModelId(variants.size() == 1 ? base : base + suffix);
            scan_.models.push_back(std::move(local));
        }
    }
    std::sort(scan_.models.begin(), scan_.models.end(), [](auto const& a, auto const& b) {
        return a.card.model_id < b.card.model_id;
    });
}

void ModelLibrary::refuse(fs::path const& path, std::string reason) {
    if (logged_.size() >= logged_max) {
        logged_.clear();
    }
    if (logged_.emplace(path, reason).second) {
        log::warning("models", "{} is not used: {}", path.string(), reason);
    }
    scan_.refused.push_back({.path = path, .reason = std::move(reason)});
}

} // namespace exo::storage
