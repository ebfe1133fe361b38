// SPDX-License-Identifier: Apache-2.0
//
// What anybody on the local network can say by DNS-SD: the first byte chooses between a whole mDNS
// packet, for the guard before Avahi, and the strings of a TXT record as they lie in it, a byte of
// length before each.
#include "base/assert.hpp"
#include "base/text.hpp"
#include "fuzz_target.hpp"
#include "net/dnssd/directory.hpp"
#include "net/dnssd/packet_guard.hpp"

#include <algorithm>
#include <numeric>

namespace exo::net::dnssd {
namespace {

std::vector<std::string> split_texts(BytesView bytes) {
    std::vector<std::string> texts;
    while (!bytes.empty()) {
        auto const size = std::min<std::size_t>(bytes[0], bytes.size() - 1);
        texts.emplace_back(as_text(bytes.subspan(1, size)));
        bytes = bytes.subspan(1 + size);
    }
    return texts;
}

void check_texts(std::vector<std::string> const& texts) {
    auto const announcement = decode_txt(texts);
    if (!announcement) {
        return;
    }
    EXO_ASSERT(is_utf8(announcement->version));
    EXO_ASSERT(announcement->addresses.size() <= addresses_max);
    auto const written = encode_txt(*announcement);
    auto const again = decode_txt(written);
    EXO_ASSERT(again.has_value());
    EXO_ASSERT(again->device_id == announcement->device_id);
}

void run(BytesView input) {
    if (input.empty()) {
        return;
    }
    auto const rest = input.subspan(1);
    if (input[0] == 0) {
        (void)is_fit_for_avahi(rest);
        return;
    }
    auto const texts = split_texts(rest);
    check_texts(texts);
    constexpr TimePoint now{};
    static auto const self =
        PeerId::parse("12D3KooWRndVhVZPCiQwHBBBdg769GyrPUW13zxwqQyf9r3ANaba").value();
    Directory directory(self, "public");
    auto const name = instance_name(as_text(rest));
    EXO_ASSERT(!name.empty() && name.size() <= label_bytes_max);
    EXO_ASSERT(numbered_name(name, 100).size() <= label_bytes_max);
    (void)directory.appeared(std::string(as_text(rest)), {.interface = "eth0"}, now);
    EXO_ASSERT(directory.appeared(name, {.interface = "eth0"}, now));
    directory.described(name, "eth0", texts, now);
    while (auto const found = directory.next_event()) {
        EXO_ASSERT(found->peer != self);
        for (auto const& address : found->addresses) {
            auto const ip = ip_of(address);
            EXO_ASSERT(ip.has_value());
            EXO_ASSERT(may_lead_elsewhere(*ip));
        }
    }
    EXO_ASSERT(directory.facts(now).size() <= 2);
}

} // namespace
} // namespace exo::net::dnssd

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    exo::net::dnssd::run(exo::BytesView(data, size));
    return 0;
}
