// A file that is dropped on the page is put into the form that imports it. Without this it is chosen.

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
    says.textContent = `${field.files[0].name} is chosen.`;
    form.requestSubmit();
  });
}
