// SPDX-License-Identifier: Apache-2.0
//
// DNS-SD by Bonjour, the responder of macOS, through dns_sd.h: one connection to it, whose socket
// is watched by our loop, and one operation on it for each thing that is asked.
//
// Written by the documentation of dns_sd.h; it has not run on a Mac yet (docs/howto/discovery.md).
//
// Bonjour announces the machine's own host name and addresses, so Registration::host and
// ::addresses are its affair. It lets an operation be ended inside of a callback, but not the
// connection: so, as with Avahi, callbacks only write down what has happened (later()).
#include "base/log.hpp"
#include "net/dnssd/driver/backend.hpp"

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <dns_sd.h>
#include <map>
#include <net/if.h>
#include <unistd.h>
#include <utility>

namespace exo::net::dnssd {
namespace {

namespace asio = boost::asio;

struct Deallocate {
    void operator()(DNSServiceRef reference) const { DNSServiceRefDeallocate(reference); }
};

using Operation = std::unique_ptr<std::remove_pointer_t<DNSServiceRef>, Deallocate>;

constexpr DNSServiceFlags on_connection = kDNSServiceFlagsShareConnection;

Error bonjour_error(std::string const& what, DNSServiceErrorType code) {
    if (code == kDNSServiceErr_PolicyDenied) {
        return {
            Errc::unavailable,
            what + ": macOS forbids it; allow exo in System Settings, Privacy & Security, Local "
                   "Network",
        };
    }
    return {Errc::unavailable, what + ": Bonjour error " + std::to_string(code)};
}

std::string interface_name(std::uint32_t index) {
    std::array<char, IF_NAMESIZE> name{};
    bool const is_there = if_indextoname(index, name.data()) != nullptr;
    return is_there ? name.data() : std::to_string(index);
}

// A TXT record as it lies in a packet.
Bytes packed(std::vector<std::string> const& texts) {
    Bytes bytes;
    for (auto const& text : texts) {
        bytes.push_back(static_cast<std::uint8_t>(text.size()));
        append(bytes, as_bytes(text));
    }
    return bytes;
}

std::vector<std::string> unpacked(BytesView bytes) {
    std::vector<std::string> texts;
    while (!bytes.empty() && bytes[0] < bytes.size()) {
        texts.emplace_back(as_text(bytes.subspan(1, bytes[0])));
        bytes = bytes.subspan(1U + bytes[0]);
    }
    return texts;
}

class BonjourBackend final : public Backend {
public:
    BonjourBackend(asio::any_io_executor executor, BackendEvents events)
        : executor_(executor)
        , events_(std::move(events))
        , socket_(std::move(executor)) {}

    ~BonjourBackend() override {
        boost::system::error_code ignored;
        socket_.close(ignored);
    }

    Result<void> start() {
        DNSServiceRef connection = nullptr;
        if (auto const code = DNSServiceCreateConnection(&connection); code != 0) {
            return bonjour_error("Bonjour does not answer", code);
        }
        connection_.reset(connection);
        // A duplicate, since Bonjour closes its own.
        int const duplicate = dup(DNSServiceRefSockFD(connection));
        boost::system::error_code error;
        if (duplicate < 0) {
            return errno_error("Bonjour's socket");
        }
        socket_.assign(duplicate, error);
        if (error) {
            ::close(duplicate);
            return io_error("Bonjour's socket", error);
        }
        DNSServiceRef browse = connection;
        auto const code = DNSServiceBrowse(
            &browse,
            on_connection,
            kDNSServiceInterfaceIndexAny,
            service_type,
            domain,
            on_instance,
            this
        );
        if (code != 0) {
            return bonjour_error("Bonjour does not browse", code);
        }
        browse_.reset(browse);
        listen();
        return {};
    }

    void publish(Registration const& wanted) override {
        if (has_failed_) {
            return;
        }
        bool const is_other = wanted.name != wanted_.name || wanted.port != wanted_.port;
        wanted_ = wanted;
        if (is_other) {
            name_number_ = 1;
            registrations_.clear();
        }
        announce();
    }

private:
    struct Watch {
        BonjourBackend* backend = nullptr;
        std::string name;
        Operation query;
    };

    struct Registered {
        Operation operation;
        std::vector<std::string> texts;
        bool is_established = false;
    };

    // --- What Bonjour tells ---

    static void DNSSD_API on_instance(
        DNSServiceRef /*reference*/,
        DNSServiceFlags flags,
        std::uint32_t interface,
        DNSServiceErrorType code,
        char const* name,
        char const* type,
        char const* in_domain,
        void* data
    ) {
        auto& self = *static_cast<BonjourBackend*>(data);
        if (code != 0) {
            self.later([&self, code] { self.fail(bonjour_error("Bonjour cannot browse", code)); });
            return;
        }
        std::array<char, kDNSServiceMaxDomainName> full{};
        if (DNSServiceConstructFullName(full.data(), name, type, in_domain) != 0) {
            return;
        }
        // Bonjour does not say by which family it has heard.
        Link link{.interface = interface_name(interface)};
        self.later([&self,
                    is_new = (flags & kDNSServiceFlagsAdd) != 0,
                    label = std::string(name),
                    full_name = std::string(full.data()),
                    link = std::move(link)] {
            is_new ? self.on_appeared(label, full_name, link) : self.on_vanished(label, link);
        });
    }

    static void DNSSD_API on_texts(
        DNSServiceRef /*reference*/,
        DNSServiceFlags flags,
        std::uint32_t interface,
        DNSServiceErrorType code,
        char const* /*full_name*/,
        std::uint16_t /*type*/,
        std::uint16_t /*record_class*/,
        std::uint16_t size,
        void const* bytes,
        std::uint32_t /*ttl*/,
        void* data
    ) {
        auto const& watch = *static_cast<Watch*>(data);
        auto& self = *watch.backend;
        if (code != 0 || (flags & kDNSServiceFlagsAdd) == 0) {
            return; // One that ends follows a newer one, or the end of the instance.
        }
        self.later([&self,
                    name = watch.name,
                    on = interface_name(interface),
                    texts = unpacked({static_cast<std::uint8_t const*>(bytes), size})] {
            self.events_.on_described(name, on, texts);
        });
    }

    static void DNSSD_API on_registered(
        DNSServiceRef reference,
        DNSServiceFlags /*flags*/,
        DNSServiceErrorType code,
        char const* /*name*/,
        char const* /*type*/,
        char const* /*domain*/,
        void* data
    ) {
        auto& self = *static_cast<BonjourBackend*>(data);
        self.later([&self, reference, code] { self.on_answer(reference, code); });
    }

    // --- What we make of it; no function of Bonjour is on the stack ---

    void on_appeared(std::string const& name, std::string const& full_name, Link const& link) {
        if (!events_.on_appeared(name, link) || watches_.contains(name)) {
            return;
        }
        auto watch = std::make_unique<Watch>(Watch{.backend = this, .name = name});
        DNSServiceRef query = connection_.get();
        auto const code = DNSServiceQueryRecord(
            &query,
            on_connection,
            kDNSServiceInterfaceIndexAny,
            full_name.c_str(),
            kDNSServiceType_TXT,
            kDNSServiceClass_IN,
            on_texts,
            watch.get()
        );
        if (code == 0) {
            watch->query.reset(query);
            watches_.emplace(name, std::move(watch));
        }
    }

    void on_vanished(std::string const& name, Link const& link) {
        if (events_.on_vanished(name, link)) {
            watches_.erase(name);
        }
    }

    void on_answer(DNSServiceRef reference, DNSServiceErrorType code) {
        auto const found = std::ranges::find_if(registrations_, [&](auto const& entry) {
            return entry.second.operation.get() == reference;
        });
        if (found == registrations_.end()) {
            return; // Given up meanwhile.
        }
        if (code == kDNSServiceErr_NameConflict) {
            auto const taken = name();
            ++name_number_;
            log::info("dns-sd", "'{}' is taken; now '{}'", taken, name());
            registrations_.clear(); // One name on all interfaces.
            announce();
        } else if (code != 0) {
            fail(bonjour_error("Bonjour does not announce", code));
        } else {
            found->second.is_established = true;
            update(found->first, found->second); // For its TTL, which a registration cannot choose.
            events_.on_established(name());
        }
    }

    // --- Publishing ---

    [[nodiscard]] std::string name() const { return numbered_name(wanted_.name, name_number_); }

    // On each interface apart, since each has a TXT record of its own.
    void announce() {
        std::erase_if(registrations_, [&](auto const& entry) {
            return !wanted_.texts.contains(entry.first);
        });
        for (auto const& [interface, texts] : wanted_.texts) {
            auto& known = registrations_[interface];
            if (!known.operation) {
                add(interface, known);
            } else if (known.is_established && known.texts != texts) {
                update(interface, known);
            }
        }
    }

    void add(std::uint32_t interface, Registered& to) {
        to.texts = wanted_.texts.at(interface);
        auto const texts = packed(to.texts);
        DNSServiceRef registration = connection_.get();
        auto const code = DNSServiceRegister(
            &registration,
            on_connection | kDNSServiceFlagsNoAutoRename,
            interface,
            name().c_str(),
            service_type,
            domain,
            nullptr,
            htons(wanted_.port),
            static_cast<std::uint16_t>(texts.size()),
            texts.data(),
            on_registered,
            this
        );
        if (code != 0) {
            fail(bonjour_error("Bonjour does not announce", code));
            return;
        }
        to.operation.reset(registration);
    }

    void update(std::uint32_t interface, Registered& known) {
        known.texts = wanted_.texts.at(interface);
        auto const texts = packed(known.texts);
        auto const code = DNSServiceUpdateRecord(
            known.operation.get(),
            nullptr,
            0,
            static_cast<std::uint16_t>(texts.size()),
            texts.data(),
            ttl_s
        );
        if (code != 0) {
            fail(bonjour_error("Bonjour does not take the new record", code));
        }
    }

    // --- The connection ---

    void listen() {
        socket_.async_wait(
            asio::posix::stream_descriptor::wait_read,
            [this, alive = std::weak_ptr(alive_)](auto error) {
                auto const guard = alive.lock();
                if (error || !guard || has_failed_) {
                    return;
                }
                auto const code = DNSServiceProcessResult(connection_.get());
                if (code != 0) { // The responder was restarted.
                    fail(bonjour_error("Bonjour has gone", code));
                    return;
                }
                listen();
            }
        );
    }

    void fail(Error error) {
        if (!std::exchange(has_failed_, true)) {
            later([this, error = std::move(error)] { events_.on_failed(error); });
        }
    }

    // Runs `work` from the event loop, in order, unless this object has gone by then.
    void later(std::function<void()> work) {
        asio::post(executor_, [alive = std::weak_ptr(alive_), work = std::move(work)] {
            if (auto const guard = alive.lock()) {
                work();
            }
        });
    }

    asio::any_io_executor executor_;
    BackendEvents events_;
    Registration wanted_;
    unsigned name_number_ = 1;
    bool has_failed_ = false;
    asio::posix::stream_descriptor socket_; // A duplicate of the connection's.
    Operation connection_;                  // Outlives the operations on it.
    Operation browse_;
    std::map<std::string, std::unique_ptr<Watch>> watches_; // Of TXT records, by instance.
    std::map<std::uint32_t, Registered> registrations_;     // By interface.
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

} // namespace

Result<std::unique_ptr<Backend>>
make_backend(asio::any_io_executor executor, BackendEvents events) {
    auto backend = std::make_unique<BonjourBackend>(std::move(executor), std::move(events));
    EXO_TRY(backend->start());
    return std::unique_ptr<Backend>(std::move(backend));
}

} // namespace exo::net::dnssd
