// SPDX-License-Identifier: Apache-2.0
#include "net/mdns/discovery.hpp"

#include "base/assert.hpp"
#include "base/queue.hpp"
#include "net/wire/ip.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

namespace exo::net::mdns {
namespace {

constexpr std::string_view text_prefix = "dnsaddr=";
constexpr std::uint16_t type_any = 255;
constexpr std::size_t instance_letters = 32;
// So that a peer's lifetime cannot overflow the clock.
constexpr std::uint32_t ttl_s_max = 24 * 3600;

Name random_instance(Random& random) {
    constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz0123456789";
    std::string label(instance_letters, ' ');
    for (auto& letter : label) {
        letter = letters[random.below(letters.size())];
    }
    return Name::of(label + "." + service);
}

std::optional<Multiaddr> tcp(std::string const& ip, std::uint16_t tcp_port) {
    auto const address = Multiaddr::tcp(ip, tcp_port);
    return address ? std::optional(*address) : std::nullopt;
}

// Where `announced` can be reached, seen from here; the likeliest first. rust advertises its
// loopback address as well and counts on it that receivers put the packet's source in its place.
// The announced one is kept beside it: a reflector's source is not the peer.
std::vector<Multiaddr> addresses_to_dial(Multiaddr const& announced, Source const& source) {
    auto const target = announced.tcp_target();
    if (!target || target->port == 0) {
        return {};
    }
    std::vector<Multiaddr> addresses;
    auto const add = [&](std::optional<Multiaddr> const& address) {
        if (address && std::ranges::find(addresses, *address) == addresses.end()) {
            addresses.push_back(*address);
        }
    };
    auto const ip = Ip::parse(target->host);
    auto const sender = Ip::parse(source.ip);
    if (target->host_kind == AddrPart::ip4 && sender && sender->is_ip4() &&
        !source.is_this_machine) {
        add(tcp(source.ip, target->port));
    }
    if (ip && ip->is_unspecified()) {
        return addresses;
    }
    if (ip && ip->is_loopback() && !source.is_this_machine) {
        return addresses;
    }
    if (ip && ip->needs_zone()) {
        // The sender's name of the interface means nothing here.
        add(source.zone.empty() ? std::nullopt : tcp(target->host + "%" + source.zone, target->port)
        );
        return addresses;
    }
    add(announced.without_peer());
    return addresses;
}

} // namespace

std::vector<Multiaddr>
reachable_addresses(std::vector<Multiaddr> const& listen, std::string const& ip) {
    std::vector<Multiaddr> addresses;
    auto const wanted = Ip::parse(ip);
    for (auto const& listener : listen) {
        auto const target = listener.tcp_target();
        auto const own = ip_of(listener);
        if (!own || !wanted) {
            continue;
        }
        bool const is_everywhere = own->is_unspecified() && own->is_ip4() == wanted->is_ip4();
        auto const address =
            is_everywhere || target->host == ip ? tcp(ip, target->port) : std::nullopt;
        if (address && std::ranges::find(addresses, *address) == addresses.end()) {
            addresses.push_back(*address);
        }
    }
    return addresses;
}

Discovery::Discovery(PeerId self, Random random, Options options)
    : self_(std::move(self))
    , random_(random)
    , options_(options)
    , instance_(random_instance(random_)) {
    EXO_ASSERT(options_.query_interval_first > Duration::zero());
}

void Discovery::link_up(LinkId id, std::vector<Multiaddr> addresses, TimePoint now) {
    auto const [entry, is_new] = links_.try_emplace(id);
    auto& link = entry->second;
    bool const has_changed = link.addresses != addresses;
    link.addresses = std::move(addresses);
    if (is_new || has_changed) {
        begin_search(link, now); // Its answers, which we give ourselves, are our announcement.
    }
}

void Discovery::begin_search(Link& link, TimePoint now) const {
    link.query_interval = options_.query_interval_first;
    link.next_query = now;
    link.eager_until = now + options_.eager_time;
}

void Discovery::search(TimePoint now) {
    for (auto& [id, link] : links_) {
        begin_search(link, now);
    }
    known_.clear();
}

void Discovery::link_down(LinkId id) {
    links_.erase(id);
}

void Discovery::receive(LinkId id, BytesView bytes, Source const& source, TimePoint now) {
    auto const found = links_.find(id);
    if (found == links_.end()) {
        return; // It went down while the packet was on the way.
    }
    auto const packet = decode(bytes);
    if (!packet) {
        ++malformed_count_;
        return;
    }
    if (packet->is_response) {
        read_answers(id, *packet, source, now);
        return;
    }
    bool const is_for_us = std::ranges::any_of(packet->questions, [](Question const& question) {
        return (question.type == type_ptr || question.type == type_any) &&
               question.name == Name::of(service);
    });
    if (is_for_us) {
        hear_query(found->second, source, now);
        answer(id, found->second, packet->id, now);
    }
}

void Discovery::on_time(TimePoint now) {
    for (auto& [id, link] : links_) {
        if (link.next_query <= now) {
            query(id, link, now);
        }
    }
    std::erase_if(known_, [now](auto const& entry) { return entry.second <= now; });
}

void Discovery::query(LinkId id, Link& link, TimePoint now) {
    Packet packet;
    packet.id = static_cast<std::uint16_t>(random_.next());
    packet.questions.push_back({.name = Name::of(service)});
    packets_.push_back({.link = id, .bytes = encode(packet)});
    link.next_query = now + link.query_interval;
    link.query_interval = now < link.eager_until
                              ? std::min(2 * link.query_interval, options_.query_interval_eager)
                              : options_.query_interval;
}

// RFC 6762 7.3: what another machine has just asked we need not ask, once the first haste is over;
// all have heard all answers. So a large network asks no more often than a small one.
void Discovery::hear_query(Link& link, Source const& source, TimePoint now) {
    if (!source.is_this_machine && link.query_interval >= options_.query_interval_eager) {
        auto const spread = static_cast<std::uint64_t>(options_.query_interval_first.count());
        link.next_query = now + link.query_interval + Duration(random_.below(spread));
    }
}

// PTR with our full name, and the addresses in the additional section, where rust looks for them.
void Discovery::answer(LinkId id, Link& link, std::uint16_t query_id, TimePoint now) {
    if (link.addresses.empty()) {
        return;
    }
    if (now - link.second_start >= 1s) {
        link.second_start = now;
        link.answers_in_second = 0;
    }
    if (++link.answers_in_second > options_.answers_per_second_max) {
        return;
    }
    auto const ttl = std::chrono::duration_cast<std::chrono::seconds>(options_.time_to_live);
    auto const ttl_s = static_cast<std::uint32_t>(ttl.count());
    Packet packet{.id = query_id, .is_response = true};
    packet.answers.push_back({
        .name = Name::of(service),
        .type = type_ptr,
        .ttl_s = ttl_s,
        .target = instance_,
    });
    auto const count = std::min(link.addresses.size(), options_.announced_max);
    for (auto const& address : std::span(link.addresses).first(count)) {
        packet.additional.push_back({
            .name = instance_,
            .type = type_txt,
            .record_class = class_in | cache_flush,
            .ttl_s = ttl_s,
            .texts = {std::string(text_prefix) + address.with_peer(self_).text()},
        });
    }
    packets_.push_back({.link = id, .bytes = encode(packet)});
}

// Also when a reflector repeats it. Of this machine the port tells: an address may just have gone.
bool Discovery::is_ours(Multiaddr const& address, Source const& source) const {
    auto const target = address.tcp_target();
    return std::ranges::any_of(links_, [&](auto const& entry) {
        return std::ranges::any_of(entry.second.addresses, [&](Multiaddr const& own) {
            bool const is_same_port = target && own.tcp_target()->port == target->port;
            return own == address || (source.is_this_machine && is_same_port);
        });
    });
}

void Discovery::read_answers(LinkId id, Packet const& packet, Source const& source, TimePoint now) {
    std::vector<Name> instances;
    for (auto const& record : packet.answers) {
        if (record.type == type_ptr && record.name == Name::of(service)) {
            instances.push_back(record.target);
        }
    }
    auto const learn_from = [&](Record const& record) {
        bool const is_known = std::ranges::find(instances, record.name) != instances.end();
        if (record.type != type_txt || !is_known) {
            return;
        }
        for (auto const& text : record.texts) {
            if (!text.starts_with(text_prefix)) {
                continue;
            }
            auto const announced = Multiaddr::parse(text.substr(text_prefix.size()));
            auto const peer = announced ? announced->peer() : std::nullopt;
            if (!peer) {
                continue; // A kind of address that we cannot dial.
            }
            if (*peer == self_) {
                auto address = announced->without_peer();
                if (record.ttl_s > 0 && !is_ours(address, source)) {
                    twins_.push_back({.link = id, .address = std::move(address)});
                }
                continue;
            }
            for (auto const& address : addresses_to_dial(*announced, source)) {
                learn({*peer, address, source.is_this_machine}, record.ttl_s, now);
            }
        }
    };
    std::ranges::for_each(packet.answers, learn_from); // js puts them there.
    std::ranges::for_each(packet.additional, learn_from);
}

void Discovery::learn(Discovered const& found, std::uint32_t ttl_s, TimePoint now) {
    Key const key{.peer = found.peer, .address = found.address};
    if (ttl_s == 0) { // It says good-bye.
        known_.erase(key);
        return;
    }
    auto const until = now + std::chrono::seconds(std::min(ttl_s, ttl_s_max));
    if (auto const known = known_.find(key); known != known_.end() && known->second > now) {
        known->second = until;
        return;
    }
    if (known_.size() >= options_.addresses_max) {
        return;
    }
    known_[key] = until;
    events_.push_back(found);
}

std::optional<OutgoingPacket> Discovery::take_packet() {
    return take_front(packets_);
}

std::optional<Discovered> Discovery::next_event() {
    return take_front(events_);
}

std::optional<Twin> Discovery::next_twin() {
    return take_front(twins_);
}

TimePoint Discovery::deadline() const {
    auto first = TimePoint::max();
    for (auto const& [id, link] : links_) {
        first = std::min(first, link.next_query);
    }
    for (auto const& [key, until] : known_) {
        first = std::min(first, until);
    }
    return first;
}

} // namespace exo::net::mdns
