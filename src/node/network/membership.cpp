// SPDX-License-Identifier: Apache-2.0
#include "node/network/membership.hpp"

#include "base/entropy.hpp"
#include "storage/files/files.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace exo::node {
namespace {

net::ClusterToken with_new_secret(std::vector<net::Multiaddr> addresses) {
    net::ClusterToken token;
    fill_random(token.secret);
    token.addresses = std::move(addresses);
    return token;
}

} // namespace

Result<MembershipFile::Look> MembershipFile::load() const {
    auto const file = storage::read_secret_file(path_, net::token_text_max);
    if (!file && file.error().code() == Errc::not_found) {
        return Look{};
    }
    if (!file && file.error().code() != Errc::limit) {
        return file.error();
    }
    auto const token = file ? net::parse_cluster_token(as_text(file->bytes))
                            : Result<net::ClusterToken>(file.error());
    if (!token) {
        return Error(
            Errc::corrupt,
            fmt::format(
                "{} should say which private cluster this node is in, but {}. 'exo cluster join "
                "TOKEN' writes it anew; 'exo cluster leave' removes it, and the node is in the "
                "public network then",
                path_.string(),
                token.error().text()
            )
        );
    }
    return Look{*token, file->was_open};
}

std::string MembershipFile::was_open_text() const {
    return path_.string() +
           " could be read by others of this machine. It is closed to them now; if someone may "
           "have read it, 'exo cluster rotate' makes a new secret";
}

Result<> MembershipFile::store(net::ClusterToken const& token) const {
    return storage::atomic_write(path_, as_bytes(net::to_text(token) + "\n"), 0600);
}

Result<bool> MembershipFile::remove() const {
    return storage::remove_file(path_);
}

Result<net::ClusterToken> create_cluster(MembershipFile const& file) {
    auto const look = file.load();
    if (!look) {
        return look.error();
    }
    if (look->membership) {
        return Error(
            Errc::conflict,
            fmt::format(
                "this node is in the private cluster {} already: 'exo cluster token' prints its "
                "token, 'exo cluster rotate' gives it a new secret, 'exo cluster leave' leaves it",
                net::fingerprint(look->membership->secret)
            )
        );
    }
    auto token = with_new_secret({});
    EXO_TRY(file.store(token));
    return token;
}

Result<net::ClusterToken> rotate_secret(MembershipFile const& file) {
    auto look = file.load();
    if (!look) {
        return look.error();
    }
    if (!look->membership) {
        return Error(
            Errc::not_found,
            "this node is in no private cluster, so there is no secret to replace: "
            "'exo cluster create' makes one"
        );
    }
    auto token = with_new_secret(std::move(look->membership->addresses));
    EXO_TRY(file.store(token));
    return token;
}

Result<Joined> join_cluster(MembershipFile const& file, std::string_view token) {
    auto parsed = net::parse_cluster_token(token);
    if (!parsed) {
        return parsed.error();
    }
    auto const look = file.load();
    EXO_TRY(file.store(*parsed));
    return Joined{std::move(*parsed), look ? look->membership : std::nullopt};
}

net::ClusterToken
invitation(net::ClusterToken const& membership, std::vector<net::Multiaddr> const& own) {
    net::ClusterToken token{membership.secret, {}};
    auto const add = [&](net::Multiaddr const& address) {
        auto& addresses = token.addresses;
        bool const fits = address.bytes().size() <= net::token_address_bytes_max &&
                          addresses.size() < net::token_addresses_max;
        if (fits && std::ranges::find(addresses, address) == addresses.end()) {
            addresses.push_back(address);
        }
    };
    std::ranges::for_each(own, add);
    std::ranges::for_each(membership.addresses, add);
    return token;
}

} // namespace exo::node
