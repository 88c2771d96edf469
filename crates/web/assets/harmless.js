// Without what steers or reorders what is shown: as the daemon renders a text.
export const harmless = (text) =>
  text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
