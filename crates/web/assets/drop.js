// Files that are dropped on the page are put into the form that imports them. Without this they are chosen.

const form = document.getElementById("import");
const field = document.getElementById("file");
const says = document.getElementById("drop-says");

for (const name of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(name, (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    form.classList.toggle("over", name === "dragover");
    if (name !== "drop" || event.dataTransfer.files.length === 0) return;
    field.files = event.dataTransfer.files;
    says.textContent = `Chosen: ${[...field.files].map((file) => file.name).join(", ")}.`;
    form.requestSubmit();
  });
}
