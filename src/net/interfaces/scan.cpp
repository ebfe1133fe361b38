// SPDX-License-Identifier: Apache-2.0
#include "net/interfaces/scan.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ifaddrs.h>
#include <map>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef __APPLE__
#include <net/if_media.h>
#include <sys/ioctl.h>
#include <sys/sockio.h>
#endif

namespace exo::net {
namespace {

struct FreeInterfaces {
    void operator()(ifaddrs* first) const { ::freeifaddrs(first); }
};

// Closes a descriptor at the end of its scope.
class Descriptor {
public:
    explicit Descriptor(int number)
        : number_(number) {}

    Descriptor(Descriptor const&) = delete;
    Descriptor& operator=(Descriptor const&) = delete;

    ~Descriptor() {
        if (number_ >= 0) {
            ::close(number_);
        }
    }

    [[nodiscard]] int number() const { return number_; }

private:
    int number_;
};

// IPv4 and IPv6 only; empty for another family.
std::string ip_text(sockaddr const& address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    void const* bytes = nullptr;
    if (address.sa_family == AF_INET) {
        bytes = &reinterpret_cast<sockaddr_in const&>(address).sin_addr;
    } else if (address.sa_family == AF_INET6) {
        bytes = &reinterpret_cast<sockaddr_in6 const&>(address).sin6_addr;
    } else {
        return "";
    }
    auto const* const result =
        ::inet_ntop(address.sa_family, bytes, text.data(), static_cast<socklen_t>(text.size()));
    return result == nullptr ? "" : result;
}

unsigned ones_of(std::uint8_t const* bytes, std::size_t count) {
    unsigned ones = 0;
    for (std::size_t i = 0; i < count; ++i) {
        ones += static_cast<unsigned>(__builtin_popcount(bytes[i]));
    }
    return ones;
}

unsigned prefix_bits(sockaddr const* mask, sa_family_t family) {
    if (mask == nullptr) {
        return family == AF_INET ? 32 : 128;
    }
    if (family == AF_INET) {
        auto const& ip4 = reinterpret_cast<sockaddr_in const*>(mask)->sin_addr;
        return ones_of(reinterpret_cast<std::uint8_t const*>(&ip4), sizeof(ip4));
    }
    auto const& ip6 = reinterpret_cast<sockaddr_in6 const*>(mask)->sin6_addr;
    return ones_of(ip6.s6_addr, sizeof(ip6.s6_addr));
}

#ifdef __APPLE__

// Without the SystemConfiguration framework: by the media that the driver reports.
void ask_kind(Interface& interface, unsigned flags) {
    auto const& name = interface.name;
    if ((flags & IFF_LOOPBACK) != 0) {
        interface.kind = InterfaceKind::loopback;
    } else if ((flags & IFF_POINTOPOINT) != 0) {
        interface.kind = InterfaceKind::vpn; // utun, ipsec, ppp.
    } else if (name.starts_with("bridge1") || name.starts_with("vmenet")) {
        interface.kind = InterfaceKind::container; // bridge100 and up: virtual machines.
    } else if (name.starts_with("en")) {
        Descriptor const socket(::socket(AF_INET, SOCK_DGRAM, 0));
        ifmediareq request{};
        ::strlcpy(request.ifm_name, name.c_str(), sizeof(request.ifm_name));
        bool const told = ::ioctl(socket.number(), SIOCGIFMEDIA, &request) == 0;
        bool const is_wifi = told && IFM_TYPE(request.ifm_current) == IFM_IEEE80211;
        interface.kind = is_wifi ? InterfaceKind::wifi : InterfaceKind::maybe_ethernet;
    }
}

#else

std::string first_line(std::filesystem::path const& file) {
    std::ifstream stream(file);
    std::string line;
    std::getline(stream, line);
    return line;
}

std::string device_type(std::filesystem::path const& folder) {
    std::ifstream stream(folder / "uevent");
    constexpr std::string_view key = "DEVTYPE=";
    for (std::string line; std::getline(stream, line);) {
        if (line.starts_with(key)) {
            return line.substr(key.size());
        }
    }
    return "";
}

bool has_real_port(std::filesystem::path const& bridge) {
    std::error_code error;
    std::filesystem::directory_iterator entry(bridge / "brif", error);
    std::error_code ignored;
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
        auto const port = bridge.parent_path() / entry->path().filename();
        if (std::filesystem::exists(port / "device", ignored)) {
            return true;
        }
    }
    return false;
}

void ask_kind(Interface& interface, unsigned flags) {
    auto const folder = std::filesystem::path("/sys/class/net") / interface.name;
    std::error_code ignored;
    auto const has = [&](char const* file) {
        return std::filesystem::exists(folder / file, ignored);
    };
    LinuxTraits traits;
    traits.name = interface.name;
    traits.is_loopback = (flags & IFF_LOOPBACK) != 0;
    traits.is_point_to_point = (flags & IFF_POINTOPOINT) != 0;
    traits.has_device = has("device");
    traits.is_wireless = has("wireless") || has("phy80211");
    traits.has_tun_flags = has("tun_flags");
    traits.is_bridge_port = has("brport");
    traits.has_real_port = has_real_port(folder);
    traits.arp_type = static_cast<unsigned>(std::atoi(first_line(folder / "type").c_str()));
    traits.device_type = device_type(folder);
    traits.driver =
        std::filesystem::read_symlink(folder / "device" / "driver", ignored).filename().string();
    interface.kind = kind_of(traits);
    interface.is_port = traits.is_bridge_port || has("bonding_slave");
}

#endif

} // namespace

Result<std::vector<Interface>> scan_interfaces() {
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0) {
        return errno_error("cannot list the network interfaces");
    }
    std::unique_ptr<ifaddrs, FreeInterfaces> const owner(first);
    std::map<unsigned, Interface> found;
    for (auto const* entry = first; entry != nullptr; entry = entry->ifa_next) {
        // "eth0:1" is a label of an address, not an interface.
        std::string const name(entry->ifa_name, std::strcspn(entry->ifa_name, ":"));
        auto const index = ::if_nametoindex(name.c_str());
        if (index == 0) {
            continue; // It has just gone.
        }
        auto& interface = found[index];
        if (interface.index == 0) {
            interface.name = name;
            interface.index = index;
            interface.is_up = (entry->ifa_flags & IFF_UP) != 0;
            interface.is_running = (entry->ifa_flags & IFF_RUNNING) != 0;
            interface.has_multicast = (entry->ifa_flags & IFF_MULTICAST) != 0;
            ask_kind(interface, entry->ifa_flags);
        }
        auto const text = entry->ifa_addr == nullptr ? "" : ip_text(*entry->ifa_addr);
        if (auto const ip = Ip::parse(text)) {
            auto const bits = prefix_bits(entry->ifa_netmask, entry->ifa_addr->sa_family);
            interface.addresses.push_back({.text = text, .ip = *ip, .prefix_bits = bits});
        }
    }
    std::vector<Interface> result;
    for (auto& [index, interface] : found) {
        result.push_back(std::move(interface));
    }
    return result;
}

std::optional<std::string> local_ip_towards(std::string const& ip) {
    bool const is_ip4 = ip.find(':') == ip.npos;
    sockaddr_storage address{};
    socklen_t length = is_ip4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    constexpr std::uint16_t any_port = 9; // "discard"; nothing is sent to it.
    void* bytes = nullptr;
    if (is_ip4) {
        auto& ip4 = reinterpret_cast<sockaddr_in&>(address);
        ip4.sin_family = AF_INET;
        ip4.sin_port = htons(any_port);
        bytes = &ip4.sin_addr;
    } else {
        auto& ip6 = reinterpret_cast<sockaddr_in6&>(address);
        ip6.sin6_family = AF_INET6;
        ip6.sin6_port = htons(any_port);
        bytes = &ip6.sin6_addr;
    }
    int const family = is_ip4 ? AF_INET : AF_INET6;
    Descriptor const socket(::socket(family, SOCK_DGRAM, 0));
    auto& generic = reinterpret_cast<sockaddr&>(address);
    if (socket.number() < 0 || ::inet_pton(family, ip.c_str(), bytes) != 1 ||
        ::connect(socket.number(), &generic, length) != 0 ||
        ::getsockname(socket.number(), &generic, &length) != 0) {
        return std::nullopt;
    }
    return ip_text(generic);
}

} // namespace exo::net
