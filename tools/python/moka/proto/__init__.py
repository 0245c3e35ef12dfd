"""The messages of nets and solvers, generated from proto/*.proto."""
