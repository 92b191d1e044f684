package policy

import rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"

func anyPermission() *rbacv3.Permission {
	return &rbacv3.Permission{Rule: &rbacv3.Permission_Any{Any: true}}
}

func anyPrincipal() *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Any{Any: true}}
}

func notPermission(p *rbacv3.Permission) *rbacv3.Permission {
	return &rbacv3.Permission{Rule: &rbacv3.Permission_NotRule{NotRule: p}}
}

func notPrincipal(p *rbacv3.Principal) *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_NotId{NotId: p}}
}

func andPermissions(list []*rbacv3.Permission) *rbacv3.Permission {
	if len(list) == 0 {
		list = []*rbacv3.Permission{anyPermission()}
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_AndRules{AndRules: &rbacv3.Permission_Set{Rules: list}}}
}

func orPermissions(list []*rbacv3.Permission) *rbacv3.Permission {
	return &rbacv3.Permission{Rule: &rbacv3.Permission_OrRules{OrRules: &rbacv3.Permission_Set{Rules: list}}}
}

func andPrincipals(list []*rbacv3.Principal) *rbacv3.Principal {
	if len(list) == 0 {
		list = []*rbacv3.Principal{anyPrincipal()}
	}
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_AndIds{AndIds: &rbacv3.Principal_Set{Ids: list}}}
}

func orPrincipals(list []*rbacv3.Principal) *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_OrIds{OrIds: &rbacv3.Principal_Set{Ids: list}}}
}
