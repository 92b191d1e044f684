// Package jwks fetches the keys for tokens that RequestAuthentication objects name by URI or issuer, and delivers them
// as a source does.
//
// Inputs: events of other sources, told by Observe, and what issuers answer. Outputs: events of kind keyset.Kind. One
// goroutine owns the state; a bounded number of others, which end before Run returns, wait for answers. Whatever goes
// wrong, the last good keys stay; what was never fetched has no row, and then the translation lets no token pass.
// URIs are users' input: an address is judged when it is dialled, after all names are resolved and redirects followed.
// Facts: translation-l7 §9.1.
package jwks
