// XML that a stranger wrote, as a tree of libxml2's: what the readers of annotations share.
#pragma once

#include <libxml/tree.h>

#include <memory>
#include <string>
#include <string_view>

namespace moka {

struct FreeXmlDocument {
  void operator()(xmlDoc* document) const { xmlFreeDoc(document); }
};
using XmlDocument = std::unique_ptr<xmlDoc, FreeXmlDocument>;

// Entities are not replaced and nothing is fetched. The caller bounds the bytes, as a tree takes ten times as many.
// Errors: kBadData, with the line, for what is no XML, has another root element, declares attributes or has an element
// of more than 1,000.
XmlDocument ParseXmlText(std::string_view text, std::string_view root);

std::string_view XmlNameOf(const xmlNode& node);
// Null where there is none. Errors: kBadData where there are several.
const xmlNode* ChildOf(const xmlNode& node, std::string_view name);
// Without blanks around it. Errors: kBadData for an entity, which would be read as nothing.
std::string XmlTextOf(const xmlNode& node);
// That of a child. Errors: besides, kBadData where there is none.
std::string XmlTextOf(const xmlNode& node, std::string_view child);
// Errors: kBadData where the element has no such attribute.
std::string XmlAttributeOf(const xmlNode& node, const char* name);

}  // namespace moka
