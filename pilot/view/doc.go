// Package view says what one class of proxies sees of a PushContext.
//
// A Proxy is one connected client, parsed from its node. A View is the values of the properties of a proxy that a
// generator may look at; two proxies whose views agree on the properties that a computation used share its result. A
// Context is what a generator is given: the rows (model.Reader) and the view's properties, both recorded.
package view
