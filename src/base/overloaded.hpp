// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace exo {

// std::visit(Overloaded{[](A const&) {...}, [](B const&) {...}}, variant)
template <class... Functions>
struct Overloaded : Functions... {
    using Functions::operator()...;
};

template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

} // namespace exo
