//! A scripted server that speaks the providers' wire formats on loopback.
