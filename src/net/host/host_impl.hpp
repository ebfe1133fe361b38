// SPDX-License-Identifier: Apache-2.0
//
// The inside of the Host: wires listeners, dialling, connections and their protocols together. Its
// bodies are in host.cpp (start, stop and what the Host offers), host_dialling.cpp (finding and
// dialling peers), host_connections.cpp (how connections come and go), host_peers.cpp (addresses
// that are passed on) and host_streams.cpp (what is spoken on connections).
//
// Every coroutine is started by spawn(), which keeps this object alive until it has unwound, so
// their bodies may use `this`. Network thread only.
#pragma once

#include "net/host/dial_book.hpp"
#include "net/host/host.hpp"
#include "net/host/interface_watcher.hpp"
#include "net/host/listeners.hpp"
#include "net/host/mdns_socket.hpp"
#include "net/host/peer_table.hpp"
#include "net/host/pending_upgrades.hpp"
#include "net/host/pubsub.hpp"
#include "net/host/refusals.hpp"
#include "net/host/task_group.hpp"
#include "net/interfaces/reach.hpp"
#include "net/peers/exchange.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace exo::net {

class Host::Impl : public std::enable_shared_from_this<Host::Impl> {
public:
    Impl(asio::any_io_executor executor, HostOptions options, HostCallbacks callbacks);

    void handle(std::string protocol, StreamHandler handler);
    [[nodiscard]] Result<void> start();
    asio::awaitable<void> stop();

    // Without waiting: for the destructor of the Host. No callback is called any more.
    void abandon();

    asio::awaitable<Result<std::unique_ptr<Stream>>> open_stream(PeerId peer, std::string protocol);
    [[nodiscard]] Result<void> publish(std::string const& topic, BytesView data);
    void dial(Multiaddr const& address);
    void disconnect(PeerId const& peer);
    void set_psk(std::optional<Psk> psk);
    void set_bootstrap(std::vector<Multiaddr> const& addresses);

    void announce_addresses() { addresses_changed_.notify(); }

    [[nodiscard]] PeerId const& id() const { return options_.identity.peer_id(); }

    [[nodiscard]] std::vector<Multiaddr> const& listen_addresses() const;

    [[nodiscard]] std::vector<PeerId> connected_peers() const { return peers_.peers(); }

    [[nodiscard]] std::vector<ConnectionInfo> connections() const;
    [[nodiscard]] std::optional<bool> speaks(PeerId const& peer, std::string const& protocol) const;
    [[nodiscard]] HostCounters counters() const;
    [[nodiscard]] NetworkFacts facts() const;

private:
    // One inbound connection on its way to being upgraded.
    struct Visitor {
        explicit Visitor(asio::any_io_executor const& executor)
            : leave(executor) {}

        Signal leave;
        bool must_leave = false;
    };

    void spawn(asio::awaitable<void> work);
    [[nodiscard]] Result<void> listen();

    // host_connections.cpp
    asio::awaitable<void> accept_all(asio::ip::tcp::acceptor& acceptor);
    asio::awaitable<void> welcome(Socket socket, asio::ip::address ip);
    static asio::awaitable<void> until_shown_out(Visitor& visitor);
    void show_out(PendingUpgrades::Ticket ticket);
    void adopt(Upgraded upgraded);
    asio::awaitable<void> run_connection(ConnectionPtr connection, std::string local_ip);
    void on_connection_up(ConnectionPtr const& connection, std::string const& local_ip);
    void on_connection_down(ConnectionPtr const& connection);
    asio::awaitable<void> close_surplus();

    // host_dialling.cpp
    asio::awaitable<void> dial_all();
    asio::awaitable<void> dial_one(DialBook::Dial dial);
    asio::awaitable<Result<Upgraded>> reach(DialBook::Dial dial);
    asio::awaitable<Result<Upgraded>> connect_and_upgrade(DialBook::Dial dial);
    void on_dial_failed(DialBook::Dial const& dial, Error const& error);
    void on_met_ourselves(DialBook::Dial const& dial, bool is_this_process);
    void learn(Multiaddr const& address, DialBook::Found found);
    [[nodiscard]] Reach reach_of(Multiaddr const& address) const;
    [[nodiscard]] bool is_local(Multiaddr const& address) const;
    [[nodiscard]] bool listens_at(TcpTarget const& target) const;
    asio::awaitable<void> watch_interfaces();
    void on_interfaces_changed();
    asio::awaitable<void> run_mdns();
    asio::awaitable<void> watch_isolation();

    // host_peers.cpp
    [[nodiscard]] std::string interface_to(PeerId const& peer) const;
    void learn_addresses_of(PeerId const& peer, std::vector<Multiaddr> const& addresses);
    void update_contact(PeerId const& peer);
    asio::awaitable<void> tell_peers();
    asio::awaitable<void> tell_peer(peers::Outgoing out);
    asio::awaitable<void> hear_peers(std::unique_ptr<Stream> stream);

    // host_streams.cpp
    asio::awaitable<void> serve(std::unique_ptr<MuxStream> stream);
    asio::awaitable<void> dispatch(std::unique_ptr<MuxStream> stream, std::string protocol);
    asio::awaitable<void> ask_identity(ConnectionPtr connection);
    asio::awaitable<void> tell_identity(std::unique_ptr<MuxStream> stream);
    asio::awaitable<void> push_identities();
    asio::awaitable<void> push_identity(ConnectionPtr connection);
    asio::awaitable<void> hear_identity(std::unique_ptr<MuxStream> stream, bool is_push);
    void set_identity(PeerId const& peer, BytesView message, bool is_push);
    [[nodiscard]] Bytes own_identity(Connection const& connection) const;
    [[nodiscard]] std::vector<std::string> protocols() const;

    asio::any_io_executor executor_;
    HostOptions options_;
    HostCallbacks callbacks_;
    std::map<std::string, StreamHandler> handlers_;
    Transport transport_;
    Listeners listeners_;
    InterfaceWatcher interface_watcher_;
    std::vector<Interface> interfaces_; // Of this machine, at the last look.
    DialBook book_;
    Signal book_changed_;
    std::set<Multiaddr> twins_told_; // Of bootstrap peers, so no more than there are.
    std::uint64_t own_arrivals_ = 0; // Connections with ourselves.
    PeerTable peers_;
    Signal connection_ended_;
    Signal peers_changed_;
    peers::Exchange exchange_;
    Signal exchange_changed_;
    Refusals refusals_;
    Signal addresses_changed_;
    PubSub pubsub_;
    std::unique_ptr<MdnsSocket> mdns_;
    PendingUpgrades pending_;
    std::map<PendingUpgrades::Ticket, Visitor*> visitors_; // Each in its coroutine's frame.
    std::uint64_t network_ = 0; // Counts set_psk(): what was begun in another one is dropped.
    Signal network_changed_;
    HostCounters counters_;
    bool stopping_ = false;
    TaskGroup tasks_;
};

} // namespace exo::net
