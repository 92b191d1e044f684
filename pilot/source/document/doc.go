// Package document reads YAML documents into JSON trees: it splits files, parses each document by itself, and tells
// the line of a field. What a document costs is bounded by its size, whatever its aliases and nesting ask for.
//
// Scalars mean what they mean to kubectl (yes, no, on and off are booleans), but for the single letters y and n, which
// are text: kubectl refuses them where text is needed, and no field needs them to be booleans.
package document
