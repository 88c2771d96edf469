// Files that are dropped on a conversation, or pasted into its task, are added to those that are
// chosen. Without this they are chosen.

const field = () => document.getElementById("files");

// Why files could not be sent, if one of them cannot be read.
export async function unreadable(files) {
  for (const file of files) {
    try {
      // A part of a file that was removed is empty, and can be read.
      const reader = file.stream().getReader();
      await reader.read();
      await reader.cancel();
    } catch {
      return `${file.name} cannot be read. It is a folder, or was changed or removed since: choose it again.`;
    }
  }
  return null;
}

function add(files) {
  const input = field();
  if (!input || files.length === 0) return;
  const all = new DataTransfer();
  for (const file of [...input.files, ...files]) all.items.add(file);
  input.files = all.files;
  // As if they were chosen.
  input.dispatchEvent(new Event("change", { bubbles: true }));
}

// Cells of a table and text of an office program come with a picture of them.
const isText = ({ types }) => types.includes("text/plain") && types.includes("text/html");

for (const name of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(name, (event) => {
    const composer = document.getElementById("composer");
    if (!composer || !event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    composer.classList.toggle("over", name === "dragover");
    if (name === "drop") add(event.dataTransfer.files);
  });
}

document.addEventListener("paste", (event) => {
  const files = event.clipboardData?.files ?? [];
  if (event.target.id !== "task" || files.length === 0 || isText(event.clipboardData)) return;
  event.preventDefault();
  add(files);
});
