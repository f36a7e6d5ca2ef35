// Package schema brings JSON Schemas into the form that the grammar library enforces exactly, and checks answers.
//
//	normal, err := schema.Normal(raw)      // for the grammar compiler; an *llm.Error names what cannot be enforced
//	err = schema.Validate(raw, answer)     // afterwards, with a full JSON Schema library
//
// The grammar library passes over what it does not know, and some combinations that it does: an answer would break the
// schema without a word. So Normal reads a schema as JSON Schema 2020-12 (with the older spellings that people still send)
// and writes another one, of only those forms that were seen to hold: every text that the grammar lets through is valid
// under the schema that came in. Not the other way round: where the schema leaves a choice, Normal may take it.
//
//   - What is neither mentioned nor forbidden is left out: additionalProperties is false where there are properties,
//     items is false behind prefixItems, and a schema of keywords for one type means that type.
//   - Properties come in the schema's order.
//   - anyOf, oneOf, allOf and $ref beside other keywords are multiplied out.
//   - not, and if with then and else, become alternatives, where the opposite can be said in these forms: of types, limits, required
//     properties, and values where there is a list of them. Alternatives of oneOf that overlap are held to what the others are not.
//   - contains holds the first items to it.
//   - A schema without a type, such as {"minLength":2}, accepts only the types that its keywords are about.
//
// It also bounds what the library, which cannot be interrupted, is asked to do.
package schema
