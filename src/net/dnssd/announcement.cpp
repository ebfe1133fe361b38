// SPDX-License-Identifier: Apache-2.0
#include "net/dnssd/announcement.hpp"

#include "base/assert.hpp"
#include "base/text.hpp"
#include "net/mdns/discovery.hpp"

#include <fmt/format.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <utility>

namespace exo::net::dnssd {
namespace {

constexpr std::string_view version_key = "txtvers"; // RFC 6763 6.7: of the keys, not of exo.
constexpr std::string_view version_value = "1";
constexpr std::string_view address_key = "addr"; // addr1, addr2, ...
constexpr std::size_t hash_bytes = 8;
constexpr std::size_t host_letters = 12;
// Of a value that people are shown: a peer id has 52 letters.
constexpr std::size_t value_bytes_max = 128;

bool is_plain(std::string_view text) {
    return text.size() <= value_bytes_max && is_utf8(text) &&
           std::ranges::none_of(text, is_control);
}

// --- Writing ---

class TxtWriter {
public:
    // False if there is no room.
    bool add(std::string_view key, std::string_view value) {
        auto text = fmt::format("{}={}", key, value);
        EXO_ASSERT(text.size() <= text_bytes_max);
        if (bytes_count_ + 1 + text.size() > texts_bytes_max) {
            return false;
        }
        bytes_count_ += 1 + text.size();
        texts_.push_back(std::move(text));
        return true;
    }

    std::vector<std::string> take() { return std::move(texts_); }

private:
    std::vector<std::string> texts_;
    std::size_t bytes_count_ = 0;
};

// --- Reading ---

using Values = std::map<std::string, std::string>; // Keys in lower case (RFC 6763 6.4).

Result<Values> read_values(std::vector<std::string> const& texts) {
    Values values;
    std::size_t bytes_count = 0;
    for (auto const& text : texts) {
        bytes_count += 1 + text.size();
        if (text.size() > text_bytes_max || bytes_count > texts_bytes_read_max) {
            return Error(
                Errc::limit, fmt::format("TXT record of over {} bytes", texts_bytes_read_max)
            );
        }
        auto const end = text.find('=');
        if (end == 0 || end == std::string::npos) {
            continue; // A missing key is to be ignored; a key without a value says nothing to us.
        }
        // The first of a name counts (RFC 6763 6.4).
        values.emplace(to_lower(text.substr(0, end)), text.substr(end + 1));
    }
    return values;
}

// Empty if it is not there or nothing to show to people.
std::string plain_value(Values const& values, std::string const& key) {
    auto const found = values.find(key);
    return found != values.end() && is_plain(found->second) ? found->second : "";
}

std::uint64_t number_value(Values const& values, std::string const& key) {
    auto const text = plain_value(values, key);
    std::uint64_t number = 0;
    auto const* const end = text.data() + text.size();
    auto const result = std::from_chars(text.data(), end, number);
    return result.ec == std::errc() && result.ptr == end ? number : 0;
}

std::vector<Multiaddr> addresses_of(Values const& values, std::string const& device_id) {
    std::vector<Multiaddr> addresses;
    for (std::size_t number = 1; number <= addresses_max; ++number) {
        auto const found = values.find(fmt::format("{}{}", address_key, number));
        if (found == values.end()) {
            continue;
        }
        auto address = Multiaddr::parse(found->second);
        if (!address || !address->tcp_target() || std::ranges::count(addresses, *address) > 0) {
            continue;
        }
        if (auto const peer = address->peer(); peer && peer->text() == device_id) {
            addresses.push_back(std::move(*address));
        }
    }
    return addresses;
}

// --- Order of addresses ---

// Smaller is better.
int rank_of(std::string const& ip) {
    auto const parsed = Ip::parse(ip);
    if (!parsed || parsed->is_link_local()) {
        return 2;
    }
    return parsed->is_ip4() ? 0 : 1;
}

} // namespace

std::string network_hash(std::optional<Psk> const& psk) {
    if (!psk) {
        return "public";
    }
    static constexpr std::string_view prefix = "exo dns-sd network\n";
    Bytes input;
    append(input, as_bytes(prefix));
    append(input, *psk);
    std::array<std::uint8_t, SHA256_DIGEST_LENGTH> digest{};
    SHA256(input.data(), input.size(), digest.data());
    return to_hex(BytesView(digest).first(hash_bytes));
}

std::vector<std::string> encode_txt(Announcement const& announcement) {
    TxtWriter writer;
    bool const has_room =
        writer.add(version_key, version_value) && writer.add("device_id", announcement.device_id) &&
        writer.add("network", announcement.network) &&
        writer.add("version", announcement.version) &&
        writer.add("os_type", announcement.os_type) &&
        writer.add("memory", std::to_string(announcement.memory_bytes)) &&
        writer.add("gpu_memory", std::to_string(announcement.gpu_memory_bytes)) &&
        writer.add("rdma_support", announcement.rdma_support ? "true" : "false") &&
        writer.add("api", announcement.api);
    EXO_ASSERT(has_room); // All of them are ours, and short.
    auto const count = std::min(announcement.addresses.size(), addresses_max);
    for (std::size_t i = 0; i < count; ++i) {
        auto const key = fmt::format("{}{}", address_key, i + 1);
        if (!writer.add(key, announcement.addresses[i].text())) {
            break;
        }
    }
    return writer.take();
}

Result<Announcement> decode_txt(std::vector<std::string> const& texts) {
    auto const values = read_values(texts);
    if (!values) {
        return values.error();
    }
    Announcement announcement{
        .device_id = plain_value(*values, "device_id"),
        .os_type = plain_value(*values, "os_type"),
        .memory_bytes = number_value(*values, "memory"),
        .gpu_memory_bytes = number_value(*values, "gpu_memory"),
        .rdma_support = plain_value(*values, "rdma_support") == "true",
        .version = plain_value(*values, "version"),
        .network = plain_value(*values, "network"),
        .api = plain_value(*values, "api"),
    };
    if (announcement.device_id.empty() || announcement.network.empty()) {
        return Error(Errc::protocol, "TXT record without device_id or network");
    }
    announcement.addresses = addresses_of(*values, announcement.device_id);
    return announcement;
}

std::string numbered_name(std::string_view name, unsigned number) {
    EXO_ASSERT(number > 0);
    auto const suffix = number == 1 ? std::string() : fmt::format("-{}", number);
    return std::string(utf8_prefix(name, label_bytes_max - suffix.size())) + suffix;
}

std::string instance_name(std::string_view name) {
    if (!is_utf8(name)) {
        return "exo";
    }
    std::string kept(name);
    std::erase_if(kept, is_control);
    kept = utf8_prefix(kept, label_bytes_max);
    return kept.empty() ? "exo" : kept;
}

std::string host_label(PeerId const& peer) {
    auto const text = to_lower(peer.text());
    return "exo-" + text.substr(text.size() - std::min(text.size(), host_letters));
}

std::vector<Multiaddr> announced_addresses(
    std::vector<Multiaddr> const& listen, std::vector<std::string> ips, PeerId const& self
) {
    std::ranges::sort(ips, {}, [](std::string const& ip) { return std::pair(rank_of(ip), ip); });
    std::vector<Multiaddr> addresses;
    for (auto const& ip : ips) {
        for (auto const& address : mdns::reachable_addresses(listen, ip)) {
            auto full = address.with_peer(self);
            if (std::ranges::count(addresses, full) == 0) {
                addresses.push_back(std::move(full));
            }
        }
    }
    return addresses;
}

} // namespace exo::net::dnssd
