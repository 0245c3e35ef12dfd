// libxml2 compares each attribute of an element with all others, so elements of very many are refused before.
#include "data/labels/xml_document.h"

#include <libxml/parser.h>

#include "core/error.h"
#include "core/text.h"

namespace moka {
namespace {

[[noreturn]] void BadXml(std::string text) { throw Error(ErrorKind::kBadData, std::move(text)); }

// The parser compares each attribute of an element with all others, whether it stands there or is declared.
void CheckAttributes(std::string_view text) {
  constexpr int kMost = 1000;
  if (text.find("<!ATTLIST") != std::string_view::npos) BadXml("the XML declares attributes (<!ATTLIST>)");
  int attributes = 0;
  for (const char c : text) {
    if (c == '<' || c == '>') attributes = 0;
    if (c == '=' && ++attributes > kMost) BadXml(StrCat("the XML has an element of more than ", kMost, " attributes"));
  }
}

}  // namespace

XmlDocument ParseXmlText(std::string_view text, std::string_view root) {
  CheckAttributes(text);
  XmlDocument document(xmlReadMemory(text.data(), static_cast<int>(text.size()), nullptr, nullptr,
                                     XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING | XML_PARSE_NOCDATA));
  if (document == nullptr) {
    const xmlError* const error = xmlGetLastError();
    if (error == nullptr || error->message == nullptr) BadXml("this is no XML");
    BadXml(StrCat("this is no XML: line ", error->line, ": ", Trim(error->message)));
  }
  const xmlNode* const top = xmlDocGetRootElement(document.get());
  if (top == nullptr || XmlNameOf(*top) != root) BadXml(StrCat("the XML is no <", root, ">"));
  return document;
}

std::string_view XmlNameOf(const xmlNode& node) { return reinterpret_cast<const char*>(node.name); }

const xmlNode* ChildOf(const xmlNode& node, std::string_view name) {
  const xmlNode* found = nullptr;
  for (const xmlNode* child = node.children; child != nullptr; child = child->next) {
    if (child->type != XML_ELEMENT_NODE || XmlNameOf(*child) != name) continue;
    if (found != nullptr) {
      BadXml(StrCat("line ", xmlGetLineNo(child), ": <", XmlNameOf(node), "> has another <", name, ">"));
    }
    found = child;
  }
  return found;
}

std::string XmlTextOf(const xmlNode& node) {
  for (const xmlNode* child = node.children; child != nullptr; child = child->next) {
    if (child->type != XML_ENTITY_REF_NODE) continue;
    BadXml(StrCat("line ", xmlGetLineNo(&node), ": <", XmlNameOf(node), "> has the entity &",
                  Printable(XmlNameOf(*child)), ";, which is not read"));
  }
  const std::unique_ptr<xmlChar, void (*)(void*)> content(xmlNodeGetContent(&node), xmlFree);
  return content == nullptr ? std::string() : std::string(Trim(reinterpret_cast<const char*>(content.get())));
}

std::string XmlTextOf(const xmlNode& node, std::string_view child) {
  const xmlNode* const found = ChildOf(node, child);
  if (found == nullptr) BadXml(StrCat("line ", xmlGetLineNo(&node), ": <", XmlNameOf(node), "> has no <", child, ">"));
  return XmlTextOf(*found);
}

std::string XmlAttributeOf(const xmlNode& node, const char* name) {
  const auto* const wanted = reinterpret_cast<const xmlChar*>(name);
  const std::unique_ptr<xmlChar, void (*)(void*)> value(xmlGetNoNsProp(&node, wanted), xmlFree);
  if (value == nullptr) BadXml(StrCat("line ", xmlGetLineNo(&node), ": <", XmlNameOf(node), "> has no ", name));
  return std::string(Trim(reinterpret_cast<const char*>(value.get())));
}

}  // namespace moka
