// SPDX-License-Identifier: Apache-2.0
//
// Network interfaces by getifaddrs(3). Their kind comes from the system, never from the address:
// 169.254.x.x is as often an Ethernet cable as a Thunderbolt one.
#include "system/machine.hpp"
#include "system/parse.hpp"
#include "system/read.hpp"

#include <arpa/inet.h>
#include <array>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace exo::system {
namespace {

// Empty for addresses that no other machine can use as they are.
std::string address_text(sockaddr const* address) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    void const* bytes = nullptr;
    if (address->sa_family == AF_INET) {
        bytes = &reinterpret_cast<sockaddr_in const*>(address)->sin_addr;
    } else if (address->sa_family == AF_INET6) {
        auto const& address6 = reinterpret_cast<sockaddr_in6 const*>(address)->sin6_addr;
        if (IN6_IS_ADDR_LINKLOCAL(&address6)) {
            return "";
        }
        bytes = &address6;
    } else {
        return "";
    }
    return ::inet_ntop(address->sa_family, bytes, text.data(), text.size()) != nullptr ? text.data()
                                                                                       : "";
}

#ifdef __APPLE__

// Without the SystemConfiguration framework the names say only this much.
std::string interface_type(std::string const& name) {
    return name.starts_with("en") ? "maybe_ethernet" : "unknown";
}

#else

std::string interface_type(std::string const& name) {
    auto const folder = std::filesystem::path("/sys/class/net") / name;
    std::error_code ignored;
    if (std::filesystem::exists(folder / "wireless", ignored) ||
        std::filesystem::exists(folder / "phy80211", ignored)) {
        return "wifi";
    }
    auto const driver =
        std::filesystem::read_symlink(folder / "device" / "driver", ignored).filename().string();
    if (driver.starts_with("thunderbolt") || name.starts_with("thunderbolt")) {
        return "thunderbolt";
    }
    if (std::filesystem::exists(folder / "device", ignored)) {
        return "ethernet";
    }
    // No device behind it: ARP hardware type 1 is a bridge, bond, VLAN or a container's end of a
    // cable; other numbers are tunnels.
    return read_small((folder / "type").string()).starts_with("1\n") ? "maybe_ethernet" : "unknown";
}

#endif

} // namespace

std::vector<model::NetworkInterface> network_interfaces() {
    ifaddrs* first = nullptr;
    if (::getifaddrs(&first) != 0) {
        return {};
    }
    std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> const owner(first, ::freeifaddrs);
    std::vector<model::NetworkInterface> interfaces;
    for (auto const* entry = first; entry != nullptr; entry = entry->ifa_next) {
        bool const usable = entry->ifa_addr != nullptr && (entry->ifa_flags & IFF_UP) != 0 &&
                            (entry->ifa_flags & IFF_LOOPBACK) == 0 &&
                            !is_virtual_interface(entry->ifa_name);
        auto const address = usable ? address_text(entry->ifa_addr) : std::string();
        if (!address.empty()) {
            interfaces.push_back(
                {.name = entry->ifa_name,
                 .ip_address = address,
                 .interface_type = interface_type(entry->ifa_name)}
            );
        }
    }
    return interfaces;
}

} // namespace exo::system
