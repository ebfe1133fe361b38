// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

#include "child.hpp"
#include "collective/local_group.hpp"
#include "collective/tcp/tcp_group.hpp"

#include <utility>
#include <vector>

namespace exo::architectures {
namespace {

Result<Bytes> run_alone(RankProgram const& program) {
    return Child([&] {
               collective::LocalGroup group;
               return program(group);
           }
    ).wait();
}

} // namespace

Result<Bytes> run_ranks(std::uint32_t ranks, RankProgram const& program) {
    if (ranks == 1) {
        return run_alone(program);
    }
    std::vector<collective::Listener> listeners;
    std::vector<collective::Endpoint> endpoints;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        auto listener = collective::Listener::open();
        if (!listener) {
            return listener.error();
        }
        endpoints.push_back({.addresses = {"127.0.0.1"}, .port = listener->port()});
        listeners.push_back(std::move(*listener));
    }
    std::vector<Child> children;
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        children.emplace_back([&]() -> Result<Bytes> {
            collective::Membership const member{.rank = rank, .instance_id = "test"};
            auto group = collective::TcpGroup::connect(
                std::move(listeners[rank]), {}, member, endpoints, {.plain_on_one_machine = true}
            );
            return group ? program(**group) : group.error();
        });
    }
    listeners.clear();
    std::vector<Result<Bytes>> results;
    for (auto& child : children) {
        results.push_back(child.wait());
    }
    for (auto const& result : results) {
        if (!result) {
            return result.error();
        }
    }
    return std::move(results.front());
}

} // namespace exo::architectures
