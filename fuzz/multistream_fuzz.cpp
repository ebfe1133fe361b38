// SPDX-License-Identifier: Apache-2.0
#include "base/assert.hpp"
#include "fuzz_target.hpp"
#include "net/multistream/negotiation.hpp"

namespace exo::net::multistream {
namespace {

template <class Machine>
void run(Machine machine, fuzz::Pieces const& pieces) {
    pieces.each([&](BytesView piece) {
        bool const goes_on = machine.receive(piece).has_value() && !machine.confirmed();
        (void)machine.take_output();
        return goes_on;
    });
    if (machine.confirmed()) {
        EXO_ASSERT(machine.agreed().has_value());
        EXO_ASSERT(machine.take_rest().size() <= pieces.bytes.size());
    }
}

} // namespace
} // namespace exo::net::multistream

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
    using namespace exo::net::multistream;
    exo::fuzz::Pieces const pieces(exo::BytesView(data, size));
    std::vector<std::string> const protocols{"/meshsub/1.2.0", "/meshsub/1.1.0", "/noise"};
    run(Listener(protocols), pieces);
    run(Dialer(protocols, Mode::wait), pieces);
    run(Dialer({"/noise"}, Mode::lazy), pieces);
    return 0;
}
