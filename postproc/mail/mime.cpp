#include "postproc/mail/mime.h"

#include <gmime/gmime.h>

#include <new>

#include "hdf5schema/basics/clocks.h"
#include "postproc/diagnose/analysis_settings.h"

namespace reveal {
namespace {

struct Unref {
  void operator()(gpointer object) const { g_object_unref(object); }
};
template <typename Object>
using Ref = std::unique_ptr<Object, Unref>;

struct Free {
  void operator()(gpointer memory) const { g_free(memory); }
};

void start_gmime() {
  static const bool ready = [] {
    g_mime_init();
    return true;
  }();
  static_cast<void>(ready);
}

Ref<GMimePart> part(std::string_view type, const std::string& content) {
  const std::size_t slash = type.find('/');
  const std::string name(type.substr(0, slash));
  const std::string kind(type.substr(slash + 1));
  Ref<GMimePart> made(g_mime_part_new_with_type(name.c_str(), kind.c_str()));
  const bool text = name == "text";
  if (text) g_mime_object_set_content_type_parameter(GMIME_OBJECT(made.get()), "charset", "utf-8");
  const Ref<GMimeStream> stream(g_mime_stream_mem_new_with_buffer(content.data(), content.size()));
  const Ref<GMimeDataWrapper> wrapper(
      g_mime_data_wrapper_new_with_stream(stream.get(), GMIME_CONTENT_ENCODING_DEFAULT));
  g_mime_part_set_content(made.get(), wrapper.get());
  g_mime_part_set_content_encoding(made.get(),
                                   text ? GMIME_CONTENT_ENCODING_QUOTEDPRINTABLE : GMIME_CONTENT_ENCODING_BASE64);
  return made;
}

Ref<GMimePart> file_part(const MimeFile& file) {
  auto made = part(file.type, file.content);
  g_mime_part_set_content_encoding(made.get(), GMIME_CONTENT_ENCODING_BASE64);
  g_mime_object_set_disposition(GMIME_OBJECT(made.get()), file.id.empty() ? "attachment" : "inline");
  g_mime_part_set_filename(made.get(), file.name.c_str());
  if (!file.id.empty()) g_mime_part_set_content_id(made.get(), file.id.c_str());
  return made;
}

/// Parts in one: each kind has a boundary of its own. Neither quoted-printable nor base64 can contain "=_", so no
/// content can end a part.
class Multipart {
 public:
  Multipart(const char* kind, const std::string& hash) : parts_(g_mime_multipart_new_with_subtype(kind)) {
    const std::string boundary = std::string("=_") + kind + "_" + hash;
    g_mime_multipart_set_boundary(parts_.get(), boundary.c_str());
  }

  template <typename Part>
  void add(const Part& added) {
    g_mime_multipart_add(parts_.get(), GMIME_OBJECT(added.get()));
  }
  [[nodiscard]] GMimeMultipart* get() const { return parts_.get(); }

 private:
  Ref<GMimeMultipart> parts_;
};

/// mixed { alternative { text, related { HTML, picture } }, files }
Multipart parts_of(const MimeBody& body, const std::string& hash) {
  Multipart mixed("mixed", hash);
  const auto text = part("text/plain", body.text);
  if (body.html.empty()) {
    mixed.add(text);
  } else {
    Multipart alternative("alternative", hash);
    alternative.add(text);
    const auto html = part("text/html", body.html);
    if (body.picture) {
      Multipart related("related", hash);
      related.add(html);
      related.add(file_part(*body.picture));
      alternative.add(related);
    } else {
      alternative.add(html);
    }
    mixed.add(alternative);
  }
  for (const MimeFile& file : body.attached) mixed.add(file_part(file));
  return mixed;
}

}  // namespace

MimeMessage::MimeMessage() : message_((start_gmime(), g_mime_message_new(TRUE))) {}
MimeMessage::~MimeMessage() {
  g_object_unref(message_);
}

void MimeMessage::from(const char* name, const std::string& address) {
  g_mime_message_add_mailbox(message_, GMIME_ADDRESS_TYPE_FROM, name, address.c_str());
}

void MimeMessage::to(const std::string& address) {
  g_mime_message_add_mailbox(message_, GMIME_ADDRESS_TYPE_TO, nullptr, address.c_str());
}

void MimeMessage::reply_to(const std::string& address) {
  g_mime_message_add_mailbox(message_, GMIME_ADDRESS_TYPE_REPLY_TO, nullptr, address.c_str());
}

void MimeMessage::subject(const std::string& line) {
  g_mime_message_set_subject(message_, line.c_str(), "utf-8");
}

void MimeMessage::date(std::int64_t utc_ns) {
  GDateTime* time = g_date_time_new_from_unix_utc(utc_ns / kSecond);
  if (time == nullptr) return;
  g_mime_message_set_date(message_, time);
  g_date_time_unref(time);
}

void MimeMessage::id(const std::string& id) {
  g_mime_message_set_message_id(message_, id.c_str());
}

void MimeMessage::header(const char* name, const std::string& value) {
  g_mime_object_set_header(GMIME_OBJECT(message_), name, value.c_str(), "utf-8");
}

/// GMime encodes a word of more than a line, and nothing decodes encoded words within a URL: RFC 2047, 5.
void MimeMessage::unfolded_header(const char* name, const std::string& word) {
  header(name, word);
  GMimeHeader* made = g_mime_header_list_get_header(g_mime_object_get_header_list(GMIME_OBJECT(message_)), name);
  if (made != nullptr) g_mime_header_set_raw_value(made, (" " + word + "\n").c_str());
}

std::string MimeMessage::with(const MimeBody& body, std::string_view id) {
  const Multipart parts = parts_of(body, text_hash(std::string(id) + body.text));
  g_mime_message_set_mime_part(message_, GMIME_OBJECT(parts.get()));
  const std::unique_ptr<char, Free> whole(g_mime_object_to_string(GMIME_OBJECT(message_), nullptr));
  if (whole == nullptr) throw std::bad_alloc();
  return whole.get();
}

}  // namespace reveal
