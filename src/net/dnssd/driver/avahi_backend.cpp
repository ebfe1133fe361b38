// SPDX-License-Identifier: Apache-2.0
//
// DNS-SD by avahi-core: Avahi's responder as a library, with its own sockets, so that no daemon is
// needed. It lives beside an avahi-daemon, and beside other exo nodes, of the same machine:
// it claims neither the machine's host name nor the reverse names of its addresses (Avahi's
// publish_addresses would), but a host name of this node alone, whose A and AAAA records it adds
// itself. Every record is added by hand, since Avahi's own service function chooses TTLs of 75 and
// 2 minutes.
//
// Avahi's callbacks only write down what has happened; it is carried out from the event loop, when
// no function of Avahi is on the stack (later()).
#include "base/assert.hpp"
#include "base/log.hpp"
#include "net/dnssd/driver/avahi_poll.hpp"
#include "net/dnssd/driver/backend.hpp"
#include "net/dnssd/driver/clock_watch.hpp"
#include "net/dnssd/packet_guard.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>

#include <algorithm>
#include <array>
#include <avahi-common/domain.h>
#include <avahi-common/error.h>
#include <avahi-common/malloc.h>
#include <avahi-common/strlst.h>
#include <avahi-core/core.h>
#include <avahi-core/log.h>
#include <avahi-core/lookup.h>
#include <avahi-core/publish.h>
#include <cstring>
#include <functional>
#include <map>
#include <net/if.h>
#include <utility>

namespace exo::net::dnssd {
namespace {

namespace asio = boost::asio;

// --- Avahi's objects, each with its end ---

template <auto free_function>
struct FreedBy {
    template <class T>
    void operator()(T* object) const {
        free_function(object);
    }
};

using Server = std::unique_ptr<AvahiServer, FreedBy<avahi_server_free>>;
using Group = std::unique_ptr<AvahiSEntryGroup, FreedBy<avahi_s_entry_group_free>>;
using ServiceBrowser = std::unique_ptr<AvahiSServiceBrowser, FreedBy<avahi_s_service_browser_free>>;
using RecordBrowser = std::unique_ptr<AvahiSRecordBrowser, FreedBy<avahi_s_record_browser_free>>;
using Record = std::unique_ptr<AvahiRecord, FreedBy<avahi_record_unref>>;
using Key = std::unique_ptr<AvahiKey, FreedBy<avahi_key_unref>>;

void write_log(AvahiLogLevel level, char const* text) {
    // What goes wrong in it is told once by on_failed; the rest is for those who look for it. That
    // another mDNS program runs here is one of its warnings.
    log::at(level == AVAHI_LOG_ERROR ? log::Level::info : log::Level::debug, "avahi", "{}", text);
}

Error avahi_error(std::string const& what, int code) {
    return {Errc::unavailable, what + ": " + avahi_strerror(code)};
}

// With dots and backslashes of `name` escaped. Empty: it is none.
std::string full_name(std::string const& name) {
    std::array<char, AVAHI_DOMAIN_NAME_MAX> joined{};
    bool const is_name =
        avahi_service_name_join(joined.data(), joined.size(), name.c_str(), service_type, domain) ==
        AVAHI_OK;
    return is_name ? joined.data() : "";
}

std::string of_domain(std::string const& name) {
    return name + "." + domain;
}

std::string interface_name(AvahiIfIndex index) {
    std::array<char, IF_NAMESIZE> name{};
    bool const is_there =
        index >= 0 && if_indextoname(static_cast<unsigned>(index), name.data()) != nullptr;
    return is_there ? name.data() : std::to_string(index); // It has just gone.
}

Link link_of(AvahiIfIndex index, AvahiProtocol protocol) {
    return {.interface = interface_name(index), .is_ip4 = protocol == AVAHI_PROTO_INET};
}

// --- Records ---

char* copied(std::string const& text) {
    return avahi_strdup(text.c_str()); // Freed with its record.
}

Record new_record(std::string const& name, std::uint16_t type) {
    return Record(avahi_record_new_full(name.c_str(), AVAHI_DNS_CLASS_IN, type, ttl_s));
}

Record ptr_record(std::string const& name, std::string const& target) {
    auto record = new_record(name, AVAHI_DNS_TYPE_PTR);
    record->data.ptr.name = copied(target);
    return record;
}

Record srv_record(std::string const& name, std::string const& host, std::uint16_t port) {
    auto record = new_record(name, AVAHI_DNS_TYPE_SRV);
    record->data.srv.priority = 0;
    record->data.srv.weight = 0;
    record->data.srv.port = port;
    record->data.srv.name = copied(host);
    return record;
}

Record txt_record(std::string const& name, std::vector<std::string> const& texts) {
    auto record = new_record(name, AVAHI_DNS_TYPE_TXT);
    AvahiStringList* list = nullptr; // Avahi keeps it backwards, and so sends it forwards.
    for (auto const& text : texts) {
        auto const bytes = as_bytes(text);
        list = avahi_string_list_add_arbitrary(list, bytes.data(), bytes.size());
    }
    record->data.txt.string_list = list;
    return record;
}

Record address_record(std::string const& host, asio::ip::address const& ip) {
    auto record = new_record(host, ip.is_v4() ? AVAHI_DNS_TYPE_A : AVAHI_DNS_TYPE_AAAA);
    if (ip.is_v4()) {
        auto const bytes = ip.to_v4().to_bytes();
        std::memcpy(&record->data.a.address, bytes.data(), bytes.size());
    } else {
        auto const bytes = ip.to_v6().to_bytes();
        std::memcpy(&record->data.aaaa.address, bytes.data(), bytes.size());
    }
    return record;
}

std::vector<std::string> texts_of(AvahiRecord const& record) {
    std::vector<std::string> texts;
    for (auto* one = record.data.txt.string_list; one; one = avahi_string_list_get_next(one)) {
        BytesView const bytes(avahi_string_list_get_text(one), avahi_string_list_get_size(one));
        texts.emplace_back(as_text(bytes));
    }
    return texts;
}

constexpr int shared = 0;
constexpr int text_flags = AVAHI_PUBLISH_UNIQUE | AVAHI_PUBLISH_NO_PROBE;

class AvahiBackend final : public Backend {
public:
    AvahiBackend(asio::any_io_executor executor, BackendEvents events)
        : executor_(std::move(executor))
        , events_(std::move(events))
        , poll_(executor_, is_fit_for_avahi) {}

    ~AvahiBackend() override {
        is_closing_ = true;
        browsers_.clear();
        browser_.reset();
        texts_.clear();
        details_.reset();
        claim_.reset();
        addresses_.clear();
        server_.reset(); // It sends all good-byes here.
    }

    Result<void> start() {
        avahi_set_log_function(write_log);
        AvahiServerConfig config;
        avahi_server_config_init(&config);
        // Of nothing that is published; so no host name is probed for.
        config.publish_hinfo = 0;
        config.publish_addresses = 0;
        config.publish_workstation = 0;
        config.publish_domain = 0;
        config.use_ipv4 = 1;
        config.use_ipv6 = 1;
        config.enable_reflector = 0;
        config.enable_wide_area = 0;
        config.disallow_other_stacks = 0;
        config.add_service_cookie = 0;
        // What is said there only this machine hears, on its other interfaces as well.
        config.deny_interfaces = avahi_string_list_new("lo", nullptr);
        int error = 0;
        server_.reset(avahi_server_new(poll_.api(), &config, on_server, this, &error));
        avahi_server_config_free(&config);
        if (!server_) {
            return avahi_error("Avahi does not start", error);
        }
        browser_.reset(avahi_s_service_browser_new(
            server_.get(),
            AVAHI_IF_UNSPEC,
            AVAHI_PROTO_UNSPEC,
            service_type,
            domain,
            AVAHI_LOOKUP_USE_MULTICAST,
            on_service,
            this
        ));
        if (!browser_) {
            return avahi_error("Avahi does not browse", avahi_server_errno(server_.get()));
        }
        return {};
    }

    void publish(Registration const& wanted) override {
        if (has_failed_) {
            return;
        }
        if (clock_.is_set_back(
                std::chrono::steady_clock::now(), std::chrono::system_clock::now()
            )) {
            fail(Error(Errc::unavailable, "the clock was set back, and Avahi waits by it"));
            return;
        }
        bool const is_other_name = wanted.name != wanted_.name || wanted.host != wanted_.host;
        bool const is_other_port = wanted.port != wanted_.port;
        wanted_ = wanted;
        if (is_other_name) {
            name_number_ = 1;
            host_number_ = 1;
            addresses_.clear();
        }
        publish_addresses();
        if (!claim_ || is_other_name || is_other_port) {
            claim_name();
        } else {
            publish_texts();
        }
    }

private:
    // The TXT record of one interface.
    struct Texts {
        Group group;
        std::vector<std::string> texts;
    };

    // --- What Avahi tells ---

    static void on_server(AvahiServer* /*server*/, AvahiServerState state, void* data) {
        auto& self = *static_cast<AvahiBackend*>(data);
        if (state == AVAHI_SERVER_FAILURE) {
            self.later([&self] { self.fail(self.last_error("Avahi has failed")); });
        } else if (state == AVAHI_SERVER_COLLISION) {
            // Cannot be while it has no records of its own; then a fresh start is as good as any.
            self.later([&self] {
                self.fail(Error(Errc::unavailable, "another machine has Avahi's host name"));
            });
        }
    }

    static void on_group(
        AvahiServer* /*server*/, AvahiSEntryGroup* group, AvahiEntryGroupState state, void* data
    ) {
        auto& self = *static_cast<AvahiBackend*>(data);
        if (state == AVAHI_ENTRY_GROUP_COLLISION) {
            self.later([&self, group] { self.on_collision(group); });
        } else if (state == AVAHI_ENTRY_GROUP_FAILURE) {
            self.later([&self] { self.fail(self.last_error("Avahi cannot announce")); });
        } else if (state == AVAHI_ENTRY_GROUP_ESTABLISHED) {
            self.later([&self, group] { self.on_established(group); });
        }
    }

    static void on_service(
        AvahiSServiceBrowser* /*browser*/,
        AvahiIfIndex interface,
        AvahiProtocol protocol,
        AvahiBrowserEvent event,
        char const* name,
        char const* /*type*/,
        char const* /*domain*/,
        AvahiLookupResultFlags /*flags*/,
        void* data
    ) {
        auto& self = *static_cast<AvahiBackend*>(data);
        if (event == AVAHI_BROWSER_FAILURE) {
            self.later([&self] { self.fail(self.last_error("Avahi cannot browse")); });
            return;
        }
        if (event != AVAHI_BROWSER_NEW && event != AVAHI_BROWSER_REMOVE) {
            return;
        }
        self.later([&self,
                    is_new = event == AVAHI_BROWSER_NEW,
                    label = std::string(name),
                    link = link_of(interface, protocol)] {
            is_new ? self.on_appeared(label, link) : self.on_vanished(label, link);
        });
    }

    static void on_record(
        AvahiSRecordBrowser* browser,
        AvahiIfIndex interface,
        AvahiProtocol protocol,
        AvahiBrowserEvent event,
        AvahiRecord* record,
        AvahiLookupResultFlags /*flags*/,
        void* data
    ) {
        auto& self = *static_cast<AvahiBackend*>(data);
        bool const is_text = event == AVAHI_BROWSER_NEW && record != nullptr &&
                             record->key->type == AVAHI_DNS_TYPE_TXT;
        if (!is_text) {
            return; // One that ends follows a newer one, or the end of the instance.
        }
        self.later([&self,
                    browser,
                    interface = link_of(interface, protocol).interface,
                    texts = texts_of(*record)] {
            for (auto const& [name, known] : self.browsers_) {
                if (known.get() == browser) {
                    self.events_.on_described(name, interface, texts);
                    return;
                }
            }
        });
    }

    // --- What we make of it; no function of Avahi is on the stack ---

    void on_appeared(std::string const& name, Link const& link) {
        if (!events_.on_appeared(name, link) || browsers_.contains(name)) {
            return;
        }
        auto const full = full_name(name);
        if (full.empty()) {
            return;
        }
        Key const key(avahi_key_new(full.c_str(), AVAHI_DNS_CLASS_IN, AVAHI_DNS_TYPE_TXT));
        RecordBrowser browser(avahi_s_record_browser_new(
            server_.get(),
            AVAHI_IF_UNSPEC,
            AVAHI_PROTO_UNSPEC,
            key.get(),
            AVAHI_LOOKUP_USE_MULTICAST,
            on_record,
            this
        ));
        if (browser) {
            browsers_.emplace(name, std::move(browser));
        }
    }

    void on_vanished(std::string const& name, Link const& link) {
        if (events_.on_vanished(name, link)) {
            browsers_.erase(name);
        }
    }

    void on_established(AvahiSEntryGroup* group) {
        if (group == claim_.get() && !details_) {
            publish_details();
            events_.on_established(name());
        }
    }

    // Somebody has one of our names.
    void on_collision(AvahiSEntryGroup* group) {
        bool const is_service = group == claim_.get();
        auto const is_address = [&](auto const& entry) { return entry.second.get() == group; };
        if (!is_service && std::ranges::none_of(addresses_, is_address)) {
            return; // A group that has been given up meanwhile.
        }
        auto const taken = is_service ? name() : host();
        auto& number = is_service ? name_number_ : host_number_;
        ++number;
        log::info("dns-sd", "'{}' is taken; now '{}'", taken, is_service ? name() : host());
        if (!is_service) {
            addresses_.clear();
            publish_addresses();
        }
        claim_name();
    }

    // --- Publishing ---

    [[nodiscard]] std::string name() const { return numbered_name(wanted_.name, name_number_); }

    [[nodiscard]] std::string instance() const {
        auto full = full_name(name());
        EXO_ASSERT(!full.empty()); // instance_name() has made it fit.
        return full;
    }

    [[nodiscard]] std::string host() const { return numbered_name(wanted_.host, host_number_); }

    // Claims the name, by the SRV record alone. Where two nodes probe for one name at the same time
    // Avahi breaks the tie for each record on its own: with two records each node can lose by one
    // of them, and both go on to the next name, for ever. The SRV records of two nodes always
    // differ.
    void claim_name() {
        texts_.clear();
        details_.reset();
        if (claim_) { // The same again: Avahi counts its tries, and slows down after some.
            avahi_s_entry_group_reset(claim_.get());
        } else {
            claim_ = new_group();
        }
        auto const srv = srv_record(instance(), of_domain(host()), wanted_.port);
        add(claim_, *srv, AVAHI_PUBLISH_UNIQUE);
        commit(claim_);
    }

    // The name is ours: what belongs to it, which needs no probe any more.
    void publish_details() {
        auto const type = of_domain(service_type);
        auto const enumeration = ptr_record(of_domain("_services._dns-sd._udp"), type);
        auto const pointer = ptr_record(type, instance());
        details_ = new_group();
        add(details_, *enumeration, shared);
        add(details_, *pointer, shared);
        commit(details_);
        publish_texts();
    }

    void publish_texts() {
        if (!details_) {
            return;
        }
        std::erase_if(texts_, [&](auto const& entry) {
            return !wanted_.texts.contains(entry.first);
        });
        for (auto const& [index, texts] : wanted_.texts) {
            auto& published = texts_[index];
            if (published.group && published.texts == texts) {
                continue;
            }
            published.texts = texts;
            auto const record = txt_record(instance(), texts);
            auto const interface = static_cast<AvahiIfIndex>(index);
            if (published.group) {
                add(published.group, *record, text_flags | AVAHI_PUBLISH_UPDATE, interface);
            } else {
                published.group = new_group();
                add(published.group, *record, text_flags, interface);
                commit(published.group);
            }
        }
    }

    // One group an address, so that those that stay are left alone.
    void publish_addresses() {
        std::erase_if(addresses_, [&](auto const& entry) {
            return std::ranges::count(wanted_.addresses, entry.first) == 0;
        });
        for (auto const& address : wanted_.addresses) {
            boost::system::error_code error;
            auto const ip = asio::ip::make_address(address.ip, error);
            if (error || addresses_.contains(address)) {
                continue;
            }
            auto group = new_group();
            auto const record = address_record(of_domain(host()), ip);
            auto const interface = static_cast<AvahiIfIndex>(address.interface_index);
            add(group, *record, AVAHI_PUBLISH_UNIQUE | AVAHI_PUBLISH_ALLOW_MULTIPLE, interface);
            commit(group);
            addresses_.emplace(address, std::move(group));
        }
    }

    Group new_group() {
        Group group(avahi_s_entry_group_new(server_.get(), on_group, this));
        if (!group) {
            fail(last_error("Avahi has no room for records"));
        }
        return group;
    }

    void
    add(Group const& group, AvahiRecord& record, int flags, AvahiIfIndex interface = AVAHI_IF_UNSPEC
    ) {
        if (!group || has_failed_) {
            return;
        }
        int const error = avahi_server_add(
            server_.get(),
            group.get(),
            interface,
            AVAHI_PROTO_UNSPEC,
            static_cast<AvahiPublishFlags>(flags),
            &record
        );
        if (error != AVAHI_OK) {
            fail(avahi_error("Avahi takes no record", error));
        }
    }

    void commit(Group const& group) {
        if (group && !has_failed_ && avahi_s_entry_group_commit(group.get()) != AVAHI_OK) {
            fail(last_error("Avahi does not announce"));
        }
    }

    // --- Errors and order ---

    [[nodiscard]] Error last_error(std::string const& what) const {
        return avahi_error(what, server_ ? avahi_server_errno(server_.get()) : AVAHI_ERR_FAILURE);
    }

    void fail(Error error) {
        if (!std::exchange(has_failed_, true)) {
            later([this, error = std::move(error)] { events_.on_failed(error); });
        }
    }

    // Runs `work` from the event loop, in order, unless this object has gone by then.
    void later(std::function<void()> work) {
        if (is_closing_) {
            return;
        }
        asio::post(executor_, [alive = std::weak_ptr(alive_), work = std::move(work)] {
            if (auto const guard = alive.lock()) {
                work();
            }
        });
    }

    asio::any_io_executor executor_;
    BackendEvents events_;
    ClockWatch clock_;
    Registration wanted_;
    unsigned name_number_ = 1;
    unsigned host_number_ = 1;
    bool has_failed_ = false;
    bool is_closing_ = false;
    AsioAvahiPoll poll_; // Outlives what follows.
    Server server_;
    ServiceBrowser browser_;
    std::map<std::string, RecordBrowser> browsers_; // Of TXT records, by instance.
    Group claim_;                                   // The SRV record.
    Group details_;                                 // The PTR records; none until the name is ours.
    std::map<std::uint32_t, Texts> texts_;          // By interface.
    std::map<HostAddress, Group> addresses_;
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

} // namespace

Result<std::unique_ptr<Backend>>
make_backend(asio::any_io_executor executor, BackendEvents events) {
    auto backend = std::make_unique<AvahiBackend>(std::move(executor), std::move(events));
    EXO_TRY(backend->start());
    return std::unique_ptr<Backend>(std::move(backend));
}

} // namespace exo::net::dnssd
