"""Who may do what: users, permissions, tokens, certificates, for controllers and segment stores."""
