// SPDX-License-Identifier: Apache-2.0
//
// The private cluster that this node is in: one file, `cluster.token`, that holds a join token.
// `exo cluster` writes it, a node reads it when it starts and follows it while it runs. No file:
// the node is in no private cluster, but in the network of its namespace.
//
// The addresses in the file are where members were to be found when this node joined; they are
// bootstrap addresses of it for good.
#pragma once

#include "net/cluster_token/cluster_token.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace exo::node {

using Membership = std::optional<net::ClusterToken>; // None: in no private cluster.

class MembershipFile {
public:
    explicit MembershipFile(std::filesystem::path path)
        : path_(std::move(path)) {}

    struct Look {
        Membership membership;
        bool was_open = false; // To others of this machine; it is closed to them now.
    };

    // Errors: corrupt and io, naming the file and what to do. A file that cannot be read is never
    // taken for none: that would take the node into a public network.
    [[nodiscard]] Result<Look> load() const;

    // Error: io.
    [[nodiscard]] Result<> store(net::ClusterToken const& token) const;

    // False: there was none. Error: io.
    [[nodiscard]] Result<bool> remove() const;

    [[nodiscard]] std::filesystem::path const& path() const { return path_; }

    // What to say when it was open.
    [[nodiscard]] std::string was_open_text() const;

private:
    std::filesystem::path path_;
};

// ---- what `exo cluster` does

// A new secret. Error: conflict, if the node is in a private cluster; those of the file.
[[nodiscard]] Result<net::ClusterToken> create_cluster(MembershipFile const& file);

// Another secret, and the same addresses. Error: not_found, if the node is in no private cluster;
// those of the file.
[[nodiscard]] Result<net::ClusterToken> rotate_secret(MembershipFile const& file);

struct Joined {
    net::ClusterToken now;
    Membership before; // A file that was damaged counts as none.
};

// Errors: invalid_argument (the token); io.
[[nodiscard]] Result<Joined> join_cluster(MembershipFile const& file, std::string_view token);

// What to give to others: the secret, the addresses of this node, then those of the file while
// there is room.
[[nodiscard]] net::ClusterToken
invitation(net::ClusterToken const& membership, std::vector<net::Multiaddr> const& own);

} // namespace exo::node
