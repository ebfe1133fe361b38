// SPDX-License-Identifier: Apache-2.0
#include "collective/local_group.hpp"

#include "base/assert.hpp"

#include <algorithm>

namespace exo::collective {

Result<void> LocalGroup::send(std::uint32_t, BytesView) {
    EXO_ASSERT(false);
    return {};
}

Result<void> LocalGroup::receive(std::uint32_t, std::span<std::uint8_t>) {
    EXO_ASSERT(false);
    return {};
}

Result<Bytes> LocalGroup::receive_message(std::uint32_t) {
    EXO_ASSERT(false);
    return Bytes();
}

Result<void> LocalGroup::broadcast(std::uint32_t root, std::span<std::uint8_t>) {
    EXO_ASSERT(root == 0);
    return health();
}

Result<void> LocalGroup::all_reduce(std::span<float>) {
    return health();
}

Result<void> LocalGroup::all_gather(BytesView part, std::span<std::uint8_t> all) {
    EXO_ASSERT(all.size() == part.size());
    EXO_TRY(health());
    std::ranges::copy(part, all.begin());
    return {};
}

Result<void> LocalGroup::barrier() {
    return health();
}

void LocalGroup::fail(Error error) {
    std::lock_guard const lock(mutex_);
    if (!error_) {
        error_ = std::move(error);
    }
}

Result<void> LocalGroup::health() const {
    std::lock_guard const lock(mutex_);
    if (error_) {
        return *error_;
    }
    return {};
}

} // namespace exo::collective
