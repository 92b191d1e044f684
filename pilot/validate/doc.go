// Package validate checks objects by the rules of admission: what the webhook rejects, and what the directory source
// leaves out. It looks at one object at a time; what needs others is analysis.
package validate
