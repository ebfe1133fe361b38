// SPDX-License-Identifier: Apache-2.0
//
// Which mDNS packets a system's library may see that runs inside this process. Avahi 0.8 asserts,
// and so ends the process, on what anybody on the local network can send: CNAME records of a name
// that is browsed for (CVE-2025-68468, CVE-2025-68471, CVE-2026-24401; docs/decisions/0016). DNS-SD
// has no use for CNAMEs. Pure.
#pragma once

#include "base/bytes.hpp"

namespace exo::net::dnssd {

// True for a well-formed packet without CNAME records.
[[nodiscard]] bool is_fit_for_avahi(BytesView packet);

} // namespace exo::net::dnssd
