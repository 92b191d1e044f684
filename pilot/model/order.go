package model

import (
	"slices"
	"strings"
)

func sortOldest(objects []*Object) { slices.SortFunc(objects, Older) }

// OlderService orders services by creation time, then name, then namespace.
func OlderService(a, b *Service) int {
	if c := a.Created.Compare(b.Created); c != 0 {
		return c
	}
	if c := strings.Compare(a.Name, b.Name); c != 0 {
		return c
	}
	return strings.Compare(a.Namespace, b.Namespace)
}

func sortServices(s []*Service) { slices.SortFunc(s, OlderService) }

// hostMatches tells whether the wildcard pattern ("*", "*.suffix") covers host, which may be a wildcard itself.
func hostMatches(pattern, host string) bool {
	if pattern == host || pattern == "*" {
		return true
	}
	suffix, ok := strings.CutPrefix(pattern, "*")
	if !ok {
		return false
	}
	return strings.HasSuffix(strings.TrimPrefix(host, "*"), suffix)
}
